use std::io::{Cursor, Write};

use kickcache_engine::request::Durability;
use kickcache_engine::time::Duration;
use kickcache_engine::units::ByteExtent;

use super::*;
use crate::workload::Kind;

fn read(text: &[u8], format: Option<Format>) -> (Format, Vec<Result<Record, TraceError>>) {
    let trace = TraceFile::from_reader(Box::new(Cursor::new(text.to_vec())), format).unwrap();
    (trace.format(), trace.collect())
}

#[track_caller]
fn read_all(text: &str, format: Format) -> Vec<Record> {
    let (found, records) = read(text.as_bytes(), None);
    assert_eq!(found, format);
    records.into_iter().map(Result::unwrap).collect()
}

fn record(micros: u64, device: u32, kind: Kind, start: u64, length: u64) -> Record {
    let at = Some(Duration::from_micros(micros));
    Record { at, device, kind, durability: Durability::Volatile, extent: ByteExtent { start, length } }
}

mod blktrace;
mod trace_series;

const CSV: &str = "time_us,op,offset,size\n0,R,4096,8192\n12,W,0,512\n";

fn csv_records() -> Vec<Record> {
    vec![record(0, 0, Kind::Read, 4096, 8192), record(12, 0, Kind::Write, 0, 512)]
}

#[test]
fn csv_with_and_without_times() {
    assert_eq!(read_all(CSV, Format::Csv), csv_records());
    let timeless = read_all("time_us,op,offset,size\n,R,4096,512\n", Format::Csv);
    assert_eq!(timeless[0].at, None);
}

#[test]
fn an_operation_of_csv_is_a_whole_word() {
    let text = "time_us,op,offset,size\n0,read,0,512\n1,Write,0,512\n2,discard,0,512\n3,FLUSH,0,0\n4,D,0,512\n5,f,0,0\n";
    let kinds: Vec<Kind> = read_all(text, Format::Csv).iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [Kind::Read, Kind::Write, Kind::Discard, Kind::Flush, Kind::Discard, Kind::Flush]);
    let bad = format!("{CSV}13,foo,0,512\n14,wander,0,512\n15,delete,0,512\n");
    let (_, records) = read(bad.as_bytes(), None);
    let errors: Vec<String> =
        records.iter().filter_map(|record| record.as_ref().err()).map(ToString::to_string).collect();
    let expected = [(4, "foo"), (5, "wander"), (6, "delete")].map(|(line, word)| {
        format!("line {line}: operation {word:?} was found; R, W, D or F (read, write, discard, flush) was expected")
    });
    assert_eq!(errors, expected);
}

#[test]
fn packed_traces_are_unpacked() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(CSV.as_bytes()).unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(CSV.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    // `printf ... | xz --check=crc32`
    let xz = include_bytes!("small.csv.xz").to_vec();
    for packed in [gzip.finish().unwrap(), zstd, xz] {
        let (format, records) = read(&packed, None);
        assert_eq!(format, Format::Csv);
        assert_eq!(records.into_iter().map(Result::unwrap).collect::<Vec<_>>(), csv_records());
    }
}

#[test]
fn concatenated_compressed_traces_are_read_to_their_end() {
    let pack = |text: &str| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        [gzip.finish().unwrap(), ruzstd::encoding::compress_to_vec(text.as_bytes(), level)]
    };
    let [first, second] = [pack(CSV), pack("13,R,8192,512\n")];
    // Parallel packers of zstd write a skippable frame before each frame.
    let nothing = [&[][..], b"\x50\x2a\x4d\x18\x04\x00\x00\x00four"];
    for ((first, second), nothing) in first.into_iter().zip(second).zip(nothing) {
        let (_, records) = read(&[&first, nothing, &second].concat(), None);
        assert_eq!(records.into_iter().map(Result::unwrap).count(), 3);
    }
}

#[test]
fn msr_cambridge() {
    let text = "128166372003061629,hm,0,Read,383496192,32768,413\n\
                128166372016382155,hm,0,Write,2822144000,4096,46\n\
                128166372026382245,hm,1,Read,0,512,1\n";
    let records = read_all(text, Format::Msr);
    assert_eq!(records[0], record(0, 0, Kind::Read, 383_496_192, 32_768));
    assert_eq!(records[1].at, Some(Duration::from_nanos(1_332_052_600)));
    assert_eq!(records[2].device, 1);
}

#[test]
fn spc() {
    let text = "0,20941264,8192,W,0.551706\n0,20939840,8192,w,0.554041\n1,3436288,15872,r,1.011732\n";
    let records = read_all(text, Format::Spc);
    assert_eq!(records[0], record(551_706, 0, Kind::Write, 20_941_264 * 512, 8_192));
    assert_eq!(records[2], record(1_011_732, 1, Kind::Read, 3_436_288 * 512, 15_872));
}

#[test]
fn alibaba_and_tencent() {
    let records =
        read_all("419,W,8792731648,16384,1577808000000046\n725,R,0,4096,1577808000000050\n", Format::Alibaba);
    assert_eq!(records[1], record(1_577_808_000_000_050, 1, Kind::Read, 0, 4_096));
    let records = read_all("1538323200,12910952,128,0,1063\n1538323201,6264184,8,1,1064\n", Format::Tencent);
    assert_eq!(records[0], record(1_538_323_200_000_000, 0, Kind::Read, 12_910_952 * 512, 65_536));
    assert_eq!(records[1], record(1_538_323_201_000_000, 1, Kind::Write, 6_264_184 * 512, 4_096));
}

const BLKPARSE: &str = "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002197   697  D   W 223490 + 8 [kjournald]
  8,0    1        4     0.000003000   697  Q  RA 100 + 16 [cat]
  8,0    1        5     0.000004000   697  Q FWS [fsync]
  8,0    1        6     0.000005000   697  Q   D 8 + 8 [fstrim]
  8,0    1        7     0.000006000   697  Q FWFS 8 + 8 [jbd2]
  8,0    1        8     0.000007000   697  m   N cfq697 insert_request
CPU3 (8,0):
 Reads Queued:           0,        0KiB
";

#[test]
fn blkparse_counts_each_access_once() {
    let records = read_all(BLKPARSE, Format::Blkparse);
    let kinds: Vec<Kind> = records.iter().map(|record| record.kind).collect();
    assert_eq!(kinds, [Kind::Write, Kind::Read, Kind::Flush, Kind::Discard, Kind::Write]);
    assert_eq!(records[0].at, Some(Duration::from_nanos(1_829)));
    assert_eq!(records[0].extent, ByteExtent { start: 223_490 * 512, length: 4_096 });
}

#[test]
fn blkparse_without_queued_events_counts_issued_ones() {
    let issued = BLKPARSE.replace(" Q ", " X ");
    assert_eq!(read_all(&issued, Format::Blkparse).len(), 1);
}

#[test]
fn fio_logs_of_both_versions() {
    let text = "fio version 3 iolog\n25 f add\n154 f open\n160 f read 249856 4096\n1415 f write 0 512\n1416 f sync\n";
    let records = read_all(text, Format::Iolog);
    assert_eq!(records[0], record(160, 0, Kind::Read, 249_856, 4_096));
    assert_eq!(records[2], record(1_416, 0, Kind::Flush, 0, 0));
    let text = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 70\ng trim 4096 4096\n";
    let records = read_all(text, Format::Iolog);
    assert_eq!(records[1], record(70, 1, Kind::Discard, 4_096, 4_096));
}

#[test]
fn bad_lines_are_named_and_skipped() {
    let text = format!(
        "{CSV}13,X,0,512\n14,R,zero,512\n15,R\n16,R,0,0\n17,R,0,512\n18,R,9999999999999999,512\n\u{0}"
    );
    let (_, records) = read(text.as_bytes(), None);
    let errors: Vec<String> =
        records.iter().filter_map(|record| record.as_ref().err()).map(ToString::to_string).collect();
    let expected = [
        "line 4: operation \"X\" was found; R, W, D or F (read, write, discard, flush) was expected",
        "line 5: offset \"zero\" was found; a whole number was expected",
        "line 6: 2 fields were found; 4 were expected",
        "line 7: an access of 0 bytes; at least one was expected",
        "line 9: 512 bytes at offset 9999999999999999; at most 1 GiB, below 4 PiB, was expected",
        "line 10: 1 fields were found; 4 were expected",
    ];
    assert_eq!(errors, expected);
    assert_eq!(records.iter().filter(|record| record.is_ok()).count(), 3);
}

#[test]
fn times_that_do_not_fit_are_named_and_never_wrap() {
    let last = "time_us,op,offset,size\n18446744073709551.615,R,0,512\n";
    let (_, records) = read(last.as_bytes(), None);
    assert_eq!(records[0].as_ref().unwrap().at, Some(Duration::from_nanos(u64::MAX)));
    for late in ["18446744073709551.616", "18446744073709552"] {
        let (_, records) = read(format!("{CSV}{late},R,0,512\n").as_bytes(), None);
        let error = records.iter().find_map(|record| record.as_ref().err()).unwrap().to_string();
        assert_eq!(error, format!("line 4: time {late:?} was found; it is out of range"));
    }
}

#[test]
fn endless_lines_and_binary_bytes_are_survived() {
    let mut text = b"time_us,op,offset,size\n".to_vec();
    text.extend(vec![b'1'; 200_000]);
    text.extend(b"\n\xff\xfe,R,0,512\n1,R,0,512\n");
    let (_, records) = read(&text, None);
    let errors = records.iter().filter(|record| record.is_err()).count();
    assert_eq!((errors, records.len()), (2, 3));
}

#[test]
fn truncated_compressed_traces_are_reported() {
    let text: String =
        (0..2_000).map(|index| format!("{index},R,{},512\n", index * index % 9_973 * 512)).collect();
    let text = format!("time_us,op,offset,size\n{text}");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let zstd =
        ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
    let xz = include_bytes!("small.csv.xz").to_vec();
    for (packer, packed) in [("gzip", gzip.finish().unwrap()), ("zstd", zstd), ("xz", xz)] {
        let cut = packed[..packed.len() * 2 / 3].to_vec();
        let error = match TraceFile::from_reader(Box::new(Cursor::new(cut)), None) {
            Ok(trace) => trace.map(Result::err).last().flatten().unwrap().to_string(),
            Err(error) => error.to_string(),
        };
        let expected = format!("{packer} cannot unpack it: it is damaged or cut off");
        assert_eq!(error, expected);
    }
}

#[test]
fn a_special_file_is_refused_before_it_is_opened() {
    let error = TraceFile::open(Path::new("/dev/zero"), Some(Format::Csv)).err().unwrap();
    assert!(error.to_string().contains("it is no regular file"), "{error}");
}

#[test]
fn files_of_no_format_are_refused_by_their_beginning() {
    let error = TraceFile::from_reader(Box::new(Cursor::new(b"hello there\n".to_vec())), None).err().unwrap();
    assert!(error.to_string().contains("\"hello there\""), "{error}");
    let empty = TraceFile::from_reader(Box::new(Cursor::new(Vec::new())), None);
    assert!(empty.is_err());
}

#[test]
fn no_format_panics_on_noise() {
    let mut random = kickcache_random::Random::new(1);
    for format in Format::ALL {
        for _ in 0..200 {
            let alphabet = b"0123456789,.RWrw +QD\n\n-x";
            let noise: Vec<u8> = (0..300).map(|_| alphabet[random.index(alphabet.len())]).collect();
            let (_, records) = read(&noise, Some(format));
            assert!(records.len() <= 300);
        }
    }
}

#[test]
fn a_survey_counts_blocks_and_places_devices() {
    let path = std::env::temp_dir().join(format!("kickcache-survey-{}.csv", std::process::id()));
    std::fs::write(&path, "1,R,0,4096,100\n2,W,512,512,200\n1,R,0,8192,300\nnonsense\n").unwrap();
    let survey = survey::survey(&path, Some(Format::Alibaba)).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((survey.reads, survey.writes, survey.touches, survey.footprint), (2, 1, 4, 3));
    assert_eq!(survey.span, Some(Duration::from_micros(200)));
    assert_eq!(survey.first_bad_lines, ["line 4: 1 fields were found; 5 were expected"]);
    let place = |device| survey.placement.place(&record(0, device, Kind::Read, 0, 512));
    assert_eq!(place(1), Some(ByteExtent { start: 1 << 20, length: 512 }));
    assert_eq!((place(2), survey.placement.volume_bytes()), (None, 2 << 20));
}

#[test]
fn many_records_at_one_time_have_none() {
    let path = std::env::temp_dir().join(format!("kickcache-timeless-{}.log", std::process::id()));
    let lines =
        "fio version 2 iolog\n/dev/sdx add\n/dev/sdx open\n/dev/sdx read 0 4096\n/dev/sdx write 4096 4096\n";
    for (wait, span) in
        [("", None), ("/dev/sdx wait 7 0\n/dev/sdx read 0 512\n", Some(Duration::from_micros(7)))]
    {
        std::fs::write(&path, format!("{lines}{wait}")).unwrap();
        let survey = survey::survey(&path, None).unwrap();
        assert_eq!((survey.bad_lines, survey.span), (0, span), "{wait}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn devices_beyond_every_address_are_placed_nowhere() {
    let path = std::env::temp_dir().join(format!("kickcache-devices-{}.csv", std::process::id()));
    let last = (1_u64 << 52) - 4_096;
    let lines: String = (0..4_096).map(|device| format!("{device},R,{last},4096,{device}\n")).collect();
    std::fs::write(&path, lines).unwrap();
    let survey = survey::survey(&path, Some(Format::Alibaba)).unwrap();
    std::fs::remove_file(&path).unwrap();
    let place = |device| survey.placement.place(&record(0, device, Kind::Read, last, 4_096));
    assert_eq!(place(1), Some(ByteExtent { start: (1 << 52) + last, length: 4_096 }));
    assert_eq!((place(4_095), survey.placement.volume_bytes()), (None, u64::MAX - ((1 << 20) - 1)));
}
