//! The published tables as JSON.

use std::io::{self, Write};

use kickcache_model::published::experiment::{Column, Experiment, Figure, Table};
use kickcache_model::published::simulation::Outcomes;
use serde_json::{Map, Value, json};

/// Prints all tables, including tables without rows.
pub(crate) fn print(tables: &[Table], outcomes: &Outcomes, out: &mut dyn Write) -> io::Result<()> {
    let table = |table: &Table| {
        let rows: Vec<Value> = table.experiments.iter().map(|row| to_json(row, outcomes)).collect();
        (table.key.to_owned(), Value::from(rows))
    };
    let text = serde_json::to_string_pretty(&tables.iter().map(table).collect::<Map<_, _>>())?;
    writeln!(out, "{text}")
}

fn to_json(experiment: &Experiment, outcomes: &Outcomes) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), experiment.name.clone().into());
    for Column { key, figure, .. } in (experiment.columns)(outcomes) {
        if let Some(key) = key {
            insert(&mut object, &key, value(&figure));
        }
    }
    nothing_for_unknown(&mut object);
    object.into()
}

/// Inserts a value at the place of its key.
fn insert(object: &mut Map<String, Value>, key: &str, value: Value) {
    let Some((group, rest)) = key.split_once('.') else {
        object.insert(key.into(), value);
        return;
    };
    let inner = object.entry(group).or_insert_with(|| Map::new().into());
    if let Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}

/// A group without any known figure becomes null.
fn nothing_for_unknown(object: &mut Map<String, Value>) {
    for value in object.values_mut() {
        if value.as_object().is_some_and(|group| group.values().all(Value::is_null)) {
            *value = Value::Null;
        }
    }
}

fn value(figure: &Figure) -> Value {
    match figure {
        Figure::Missing => Value::Null,
        Figure::Words(words) => json!(words),
        Figure::Count(count) => json!(count),
        Figure::ByJob(figures) => json!(figures),
        Figure::Rate(number)
        | Figure::RateAsked { rate: number, .. }
        | Figure::Percent(number)
        | Figure::Ratio(number)
        | Figure::PartOfReads(number)
        | Figure::Asked(number)
        | Figure::AtMost(number) => json!(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_keys_become_objects_and_unknown_groups_null() {
        let columns = |_: &Outcomes| {
            vec![
                Column::untold("known.rate", Figure::Rate(1.5)),
                Column::untold("known.share", Figure::Missing),
                Column::untold("unknown.rate", Figure::Missing),
                Column::derived("a ratio", Figure::Ratio(2.0)),
            ]
        };
        let experiment = Experiment {
            name: "row".into(),
            mark: " (fitted)".into(),
            note: String::new(),
            run: Vec::new(),
            charts: None,
            columns: Box::new(columns),
        };
        let expected = json!({ "name": "row", "known": { "rate": 1.5, "share": null }, "unknown": null });
        assert_eq!(to_json(&experiment, &Outcomes::new(Vec::new())), expected);
    }
}
