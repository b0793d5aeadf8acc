//! Results as an Apache Parquet file: one table, a row a result.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use kickcache_command::notice::notice;
use kickcache_command::whole_file;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Column {
    name: &'static str,
    values: Values,
}

#[derive(Clone, PartialEq, Debug)]
enum Values {
    Text(Vec<String>),
    Count(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
}

impl Column {
    pub(crate) fn text(name: &'static str, values: impl IntoIterator<Item = String>) -> Column {
        Column { name, values: Values::Text(values.into_iter().collect()) }
    }

    /// A value above the largest signed number of 64 bits becomes that number.
    pub(crate) fn count(name: &'static str, values: impl IntoIterator<Item = Option<u64>>) -> Column {
        let signed = |value: Option<u64>| value.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        Column { name, values: Values::Count(values.into_iter().map(signed).collect()) }
    }

    pub(crate) fn real(name: &'static str, values: impl IntoIterator<Item = Option<f64>>) -> Column {
        Column { name, values: Values::Real(values.into_iter().collect()) }
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self.values {
            Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Values::Count(_) => (PhysicalType::INT64, None),
            Values::Real(_) => (PhysicalType::DOUBLE, None),
        };
        let repetition = match self.values {
            Values::Text(_) => Repetition::REQUIRED,
            Values::Count(_) | Values::Real(_) => Repetition::OPTIONAL,
        };
        let column = Type::primitive_type_builder(self.name, physical).with_repetition(repetition);
        Ok(Arc::new(column.with_logical_type(logical).build()?))
    }

    fn write(&self, mut into: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match &self.values {
            Values::Text(values) => {
                let bytes: Vec<ByteArray> =
                    values.iter().map(|value| ByteArray::from(value.as_str())).collect();
                into.typed::<ByteArrayType>().write_batch(&bytes, None, None)?;
            }
            Values::Count(values) => {
                let found: Vec<i64> = values.iter().flatten().copied().collect();
                into.typed::<Int64Type>().write_batch(&found, Some(&levels(values)), None)?;
            }
            Values::Real(values) => {
                let found: Vec<f64> = values.iter().flatten().copied().collect();
                into.typed::<DoubleType>().write_batch(&found, Some(&levels(values)), None)?;
            }
        }
        into.close()
    }
}

/// Parquet's definition levels: 1 for a value.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// Writes a table; all columns have the same number of rows.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(path: &Path, columns: &[Column]) -> anyhow::Result<()> {
    let failed = || format!("the table {} cannot be written", path.display());
    let table = encode(columns).with_context(failed)?;
    whole_file::write(path, table).with_context(failed)?;
    notice(&format!("The table is in {}.", path.display()));
    Ok(())
}

fn encode(columns: &[Column]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(Column::schema).collect::<Result<Vec<TypePtr>, ParquetError>>()?;
    let schema = Arc::new(Type::group_type_builder("kickcache").with_fields(fields).build()?);
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::builder().build()))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let into = group.next_column()?.expect("the schema has a column for each");
        column.write(into)?;
    }
    group.close()?;
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Row;

    use super::*;

    #[test]
    fn a_table_with_missing_values_is_read_back() {
        let columns = [
            Column::text("name", ["a".into(), "ä".into()]),
            Column::count("blocks", [Some(u64::MAX), None]),
            Column::real("ratio", [None, Some(0.25)]),
        ];
        let rows: Vec<Row> = read(&columns);
        let shown: Vec<String> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "{name: \"a\", blocks: 9223372036854775807, ratio: null}",
                "{name: \"ä\", blocks: null, ratio: 0.25}"
            ]
        );
    }

    #[test]
    fn a_table_without_rows_is_a_table() {
        assert!(read(&[Column::text("name", []), Column::count("blocks", [])]).is_empty());
    }

    #[test]
    fn a_previous_table_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("t.parquet"), folder.path().join("link"));
        std::fs::write(&path, "an older table").unwrap();
        std::fs::hard_link(&path, &link).unwrap();
        write(&path, &[Column::count("blocks", [Some(1)])]).unwrap();
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "an older table", "it was not written over");
        assert_ne!(std::fs::read(&path).unwrap(), b"an older table");
    }

    fn read(columns: &[Column]) -> Vec<Row> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path, columns).unwrap();
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }
}
