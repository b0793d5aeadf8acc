use std::io::Cursor;

use super::*;
use crate::trace_file::{Format, TraceFile};

fn record(nanos: u64, kind: Kind, start: u64, length: u64) -> Record {
    let at = Some(Duration::from_nanos(nanos));
    Record { at, device: 0, kind, durability: Durability::Volatile, extent: ByteExtent { start, length } }
}

fn title() -> Title {
    Title { header: RecordingHeader { volume: "vm1".into(), ..RecordingHeader::default() }, file: "f".into() }
}

fn write(target: Target, records: &[Record]) -> Result<(Vec<u8>, Lacks), ConversionError> {
    let mut writer = TraceWriter::new(Vec::new(), target, title())?;
    records.iter().try_for_each(|record| writer.write(record))?;
    Ok(writer.finish()?)
}

fn read(bytes: &[u8]) -> (Format, Vec<Record>) {
    let trace = TraceFile::from_reader(Box::new(Cursor::new(bytes.to_vec())), None).unwrap();
    (trace.format(), trace.map(Result::unwrap).collect())
}

fn reads_and_writes() -> Vec<Record> {
    let at = |second: u64| second * 1_000_000_000;
    vec![
        record(at(1), Kind::Read, 4_096, 8_192),
        record(at(1), Kind::Write, 0, 512),
        Record { device: 0, ..record(at(3), Kind::Read, 1 << 40, 4_096) },
    ]
}

fn lacks_of(lack: Lack, count: u64) -> Lacks {
    let mut lacks = Lacks::default();
    lacks.add_many(lack, count);
    lacks
}

fn shifted(records: &[Record], nanos: u64) -> Vec<Record> {
    let shift = |record: &Record| record.at.map(|at| Duration::from_nanos(at.as_nanos() - nanos));
    records.iter().map(|record| Record { at: shift(record), ..*record }).collect()
}

#[test]
fn properties_that_every_format_supports_survive_conversion() {
    let records = reads_and_writes();
    for target in Target::ALL {
        let (bytes, lacks) = write(target, &records).unwrap();
        let (format, found) = read(&bytes);
        assert!(target.name().starts_with(format.name()), "{} is read as {}", target.name(), format.name());
        let is_timeless = target == Target::IologV2;
        assert_eq!(
            lacks,
            if is_timeless { lacks_of(Lack::Time, 3) } else { Lacks::default() },
            "{}",
            target.name()
        );
        // Times in fio's logs count from the first record, and so do times read from MSR.
        let second = 1_000_000_000;
        let expected = match target {
            Target::Iolog => shifted(&records, second - 1_000),
            Target::Msr => shifted(&records, second),
            Target::IologV2 => {
                records.iter().map(|record| Record { at: Some(Duration::default()), ..*record }).collect()
            }
            _ => records.clone(),
        };
        assert_eq!(found, expected, "{}:\n{}", target.name(), String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn devices_come_back_where_there_is_room_for_them() {
    let records = [Record { device: 1, ..record(4_000_000_000, Kind::Read, 0, 4_096) }];
    let records = [&reads_and_writes()[..], &records].concat();
    for target in Target::ALL.into_iter().filter(|target| target.has_devices()) {
        let (_, found) = read(&write(target, &records).unwrap().0);
        assert_eq!(
            found.iter().map(|record| record.device).collect::<Vec<_>>(),
            [0, 0, 0, 1],
            "{}",
            target.name()
        );
    }
    let error = write(Target::Csv, &records).unwrap_err().to_string();
    assert!(error.contains("more than one device, and `csv` has no room"), "{error}");
}

#[test]
fn properties_that_a_format_lacks_are_counted() {
    let durable = Record { durability: Durability::Durable, ..record(5, Kind::Write, 0, 4_096) };
    let records = [
        durable,
        record(6, Kind::Flush, 0, 0),
        record(7, Kind::Discard, 0, 4_096),
        record(8, Kind::WriteZeroes, 0, 4_096),
        record(9, Kind::Read, 100, 100),
    ];
    let said = |target: Target| write(target, &records).unwrap().1.sentences(target.name());
    assert_eq!(said(Target::Kickcache), [""; 0]);
    assert_eq!(
        said(Target::Iolog),
        [
            "1 write of zeroes became plain writes: `iolog` has no other",
            "1 write with FUA became plain writes: `iolog` has no FUA",
        ]
    );
    assert_eq!(
        said(Target::Tencent),
        [
            "1 flush left out: `tencent` has none",
            "1 discard left out: `tencent` has none",
            "1 write of zeroes became plain writes: `tencent` has no other",
            "1 write with FUA became plain writes: `tencent` has no FUA",
            "1 access grew to whole sectors of 512 bytes, which `tencent` counts in",
            "3 times cut to whole seconds, which `tencent` counts in",
        ]
    );
    let (bytes, _) = write(Target::Blkparse, &records).unwrap();
    let (_, found) = read(&bytes);
    let kinds: Vec<Kind> = found.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [Kind::Write, Kind::Flush, Kind::Discard, Kind::Write, Kind::Read]);
    assert_eq!(found[0].durability, Durability::Durable);
    assert_eq!(found[4].extent, ByteExtent { start: 0, length: 512 });
}

#[test]
fn traces_without_times_are_refused_where_times_are_needed() {
    let timeless = [Record { at: None, ..record(0, Kind::Read, 0, 4_096) }];
    for target in Target::ALL {
        match write(target, &timeless) {
            Ok((bytes, _)) => {
                assert!(!target.needs_times() && read(&bytes).1.len() == 1, "{}", target.name());
            }
            Err(error) => assert!(error.to_string().contains("has no times"), "{error}"),
        }
    }
}

#[test]
fn iologs_have_the_format_that_fio_reads() {
    let records = [
        record(5_000_000, Kind::Read, 0, 4_096),
        record(5_050_000, Kind::Write, 4_096, 512),
        record(5_200_000, Kind::Flush, 0, 0),
        record(5_300_000, Kind::Discard, 0, 512),
    ];
    let text = |target| String::from_utf8(write(target, &records).unwrap().0).unwrap();
    assert_eq!(
        text(Target::Iolog),
        "fio version 3 iolog\n1 f add\n1 f open\n1 f read 0 4096\n51 f write 4096 512\n201 f sync 0 0\n301 f trim 0 512\n\
         301 f close\n"
    );
    assert_eq!(
        text(Target::IologV2),
        "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf write 4096 512\nf sync 0 0\nf trim 0 512\nf close\n"
    );
}
