use super::*;

/// A record of version 7, as the kernel writes it.
fn binary(micros: u64, sector: u64, bytes: u32, action: u32, extra: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    let mut put = |bytes: &[u8]| record.extend_from_slice(bytes);
    put(&0x6561_7407_u32.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&(micros * 1_000).to_le_bytes());
    put(&sector.to_le_bytes());
    [bytes, action, 697, 0x0080_0000, 3].iter().for_each(|field| put(&field.to_le_bytes()));
    put(&0_u16.to_le_bytes());
    put(&u16::try_from(extra.len()).unwrap().to_le_bytes());
    put(extra);
    record
}

#[test]
fn blktrace_files() {
    let (write, flush, notify, discard) = (1 << 17, 1 << 18, 1 << 26, 1 << 29);
    let mut file = binary(0, 0, 0, notify, b"kjournald");
    file.extend(binary(5, 8, 4_096, 1 | write, &[]));
    file.extend(binary(6, 8, 4_096, 7 | write, b"xyz"));
    file.extend(binary(7, 16, 8_192, 1, &[]));
    file.extend(binary(8, 0, 0, 1 | flush | write, &[]));
    file.extend(binary(9, 0, 512, 1 | discard, &[]));
    let (format, records) = read(&file, None);
    assert_eq!(format, Format::Blktrace);
    let records: Vec<Record> = records.into_iter().map(Result::unwrap).collect();
    let expected = [
        record(5, 0, Kind::Write, 4_096, 4_096),
        record(7, 0, Kind::Read, 8_192, 8_192),
        record(8, 0, Kind::Flush, 0, 0),
        record(9, 0, Kind::Discard, 0, 512),
    ];
    assert_eq!(records, expected);
    let (_, records) = read(&file[..file.len() - 10], None);
    assert_eq!(records.len(), 3);
    let mut damaged = file.clone();
    damaged[58] = 0;
    let (_, records) = read(&damaged, None);
    let error = records[0].as_ref().unwrap_err().to_string();
    assert_eq!(error, "record 2 has no blktrace mark; the file is damaged there");
}

/// A record of version 8, with an action of 64 bits.
fn binary_8(micros: u64, bytes: u32, action: u64) -> Vec<u8> {
    let mut record = Vec::new();
    let mut put = |bytes: &[u8]| record.extend_from_slice(bytes);
    put(&0x6561_7408_u32.to_le_bytes());
    put(&1_u32.to_le_bytes());
    put(&(micros * 1_000).to_le_bytes());
    put(&8_u64.to_le_bytes());
    [bytes, 697].iter().for_each(|field| put(&field.to_le_bytes()));
    put(&action.to_le_bytes());
    [0x0080_0000_u32, 3].iter().for_each(|field| put(&field.to_le_bytes()));
    put(&[0, 0, 4, 0]);
    put(&[0; 12]);
    put(b"more");
    record
}

#[test]
fn records_of_control_groups_are_read() {
    let file: Vec<u8> =
        (0..100).flat_map(|at| binary(at, at * 8, 4_096, 1 | 1 << 8 | 1 << 16, &[77; 8])).collect();
    let (_, records) = read(&file, None);
    let expected: Vec<Record> = (0..100).map(|at| record(at, 0, Kind::Read, at * 4_096, 4_096)).collect();
    assert_eq!(records.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
}

#[test]
fn version_8_is_read_with_its_categories() {
    let (append, reset, zeroes) = (1 << 32, 1 << 33, 1 << 38);
    let actions = [1, 1 | 1 << 17, 1 | append, 1 | zeroes, 1 | reset, 1 | 1 << 8 | 1 << 29, 2];
    let file: Vec<u8> = (0..).zip(actions).flat_map(|(at, action)| binary_8(at, 512, action)).collect();
    let (format, records) = read(&file, None);
    assert_eq!(format, Format::Blktrace);
    let kinds: Vec<Kind> = records.into_iter().map(|record| record.unwrap().kind).collect();
    assert_eq!(kinds, [Kind::Read, Kind::Write, Kind::Write, Kind::WriteZeroes, Kind::Discard]);
}

#[test]
fn unknown_versions_and_bits_are_named() {
    let said = |file: &[u8]| {
        let (_, records) = read(file, None);
        records.last().unwrap().as_ref().unwrap_err().to_string()
    };
    let good = binary(5, 8, 512, 1, &[]);
    let with_first_word = |word: u32| {
        let mut file = good.clone();
        file[..4].copy_from_slice(&word.to_le_bytes());
        file
    };
    let expected =
        "record 1 has blktrace's version 9, and 7 and 8 can be read; convert it with blkparse, as text";
    assert_eq!(said(&with_first_word(0x6561_7409)), expected);
    let expected =
        "record 1 is big-endian, and little-endian was expected; convert it with blkparse, as text";
    assert_eq!(said(&with_first_word(0x0774_6165)), expected);
    let odd = binary(6, 8, 512, 1 | 1 << 9, &[]);
    let (_, records) = read(&[good.clone(), odd.clone()].concat(), None);
    assert!(records.iter().any(Result::is_ok));
    let wrong = records.iter().find_map(|record| record.as_ref().err()).unwrap().to_string();
    assert_eq!(wrong, "line 2: action 0x201 was found; it has bits without a meaning");
    let alone = said(&odd);
    assert!(alone.starts_with("no access was found in one record (line 1: action 0x201"), "{alone}");
}

#[test]
fn a_trace_without_a_record_of_use_is_an_error() {
    let merges: Vec<u8> = (0..5).flat_map(|at| binary(at, 8, 512, 2, &[])).collect();
    let (_, records) = read(&merges, None);
    let said = records[0].as_ref().unwrap_err().to_string();
    assert_eq!(said, "no access was found in any of 5 records; name its format, or another file");
    let (_, records) = read(b"time_us,op,offset,size\n", None);
    assert!(records.len() == 1 && records[0].is_err());
    let (_, records) = read(b"x\ny\n", Some(Format::Csv));
    let said = records.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(said.starts_with("no access was found in any of 2 lines (line 1: 1 fields"), "{said}");
    assert!(read(b"", Some(Format::Csv)).1.is_empty(), "a format was named for an empty recording");
}

fn of_processor(cpu: u32, times: impl Iterator<Item = u64>) -> Vec<u8> {
    let one = |at: u64| {
        let mut bytes = binary(at * 1_000, at * 8, 512, 1, &[]);
        bytes[40..44].copy_from_slice(&cpu.to_le_bytes());
        bytes
    };
    times.flat_map(one).collect()
}

#[test]
fn the_files_of_the_processors_are_merged_by_their_times() {
    let parts: Vec<u8> =
        (0..4).flat_map(|cpu| of_processor(cpu, (0..20_000).filter(|at| at % 4 == u64::from(cpu)))).collect();
    let mut trace = TraceFile::from_reader(Box::new(Cursor::new(parts)), None).unwrap();
    let records: Vec<Record> = trace.by_ref().map(Result::unwrap).collect();
    let expected: Vec<Record> =
        (0..20_000).map(|at| record(at * 1_000, 0, Kind::Read, at * 4_096, 512)).collect();
    assert!(records == expected);
    assert_eq!(trace.repairs().joined, 0);
    assert_eq!(trace.repairs().sorted, 15_000 - 3);
    let said = trace.repairs().sentences();
    assert_eq!(said, ["14997 records were out of the order of the times; the trace was sorted"]);
}

#[test]
fn two_recordings_of_several_processors_follow_each_other() {
    let run =
        || (0..2).flat_map(|cpu| of_processor(cpu, (0..100).filter(move |at| at % 2 == u64::from(cpu))));
    let joined: Vec<u8> = run().chain(run()).collect();
    let mut trace = TraceFile::from_reader(Box::new(Cursor::new(joined)), None).unwrap();
    let times: Vec<u64> =
        trace.by_ref().map(|record| record.unwrap().at.unwrap().as_nanos() / 1_000_000).collect();
    let expected: Vec<u64> = (0..100).chain((0..100).map(|at| 99 + at)).collect();
    assert_eq!((times, trace.repairs().joined), (expected, 1));
}
