use super::*;

fn times(text: &str) -> (Vec<u64>, TimeRepairs) {
    let mut trace = TraceFile::from_reader(Box::new(Cursor::new(text.as_bytes().to_vec())), None).unwrap();
    let times = trace.by_ref().map(|record| record.unwrap().at.unwrap().as_nanos() / 1_000_000).collect();
    (times, trace.repairs())
}

fn csv(millis: impl Iterator<Item = u64>) -> String {
    millis.map(|at| format!("{},R,{},512\n", at * 1_000, at * 512)).collect()
}

#[test]
fn two_logs_of_fio_in_one_file_follow_each_other() {
    let log = "fio version 3 iolog\n0 /x add\n0 /x open\n1000 /x read 0 4096\n2000000 /x read 4096 4096\n2000000 /x close\n";
    let (times, repairs) = times(&log.repeat(2));
    assert_eq!(times, [1, 2_000, 2_000, 3_999]);
    assert_eq!(repairs, TimeRepairs { joined: 1, ..TimeRepairs::default() });
    assert!(repairs.sentences()[0].starts_with("times begin again at 1 place,"));
}

#[test]
fn a_line_into_which_another_job_wrote_is_named() {
    let log = "fio version 3 iolog\n0 /x add\n1 /x read 0 4096\n2 /x read 4096 473280 4096\n";
    let (_, records) = read(log.as_bytes(), None);
    let said = records.iter().find_map(|record| record.as_ref().err()).unwrap().to_string();
    assert_eq!(said, "line 4: \"4096\" was found behind a length; nothing more was expected");
}

#[test]
fn events_behind_a_summary_of_blkparse_are_read() {
    let later = BLKPARSE.replace("     0.00000", "     5.00000");
    let records = read_all(&format!("Input file sda.blktrace.0 added\n{BLKPARSE}{later}"), Format::Blkparse);
    assert_eq!((records.len(), records[5].at), (10, Some(Duration::from_nanos(5_000_001_829))));
    let (_, repairs) = times(&BLKPARSE.repeat(3));
    assert_eq!((repairs.joined, repairs.sorted), (2, 0));
}

#[test]
fn records_out_of_order_are_sorted() {
    let text = format!("time_us,op,offset,size\n{}", csv([0, 1, 5, 3, 4, 9, 8, 1_000].into_iter()));
    let (times, repairs) = times(&text);
    assert_eq!(times, [0, 1, 3, 4, 5, 8, 9, 1_000]);
    assert_eq!(repairs, TimeRepairs { sorted: 3, ..TimeRepairs::default() });
}

#[test]
fn devices_noted_one_behind_the_other_are_merged() {
    let of_device =
        |device: u64| (0..100).map(move |at| format!("{device},R,0,4096,{}\n", at * 1_000_000 + device));
    let text: String = (0..3).flat_map(of_device).collect();
    let (_, records) = read(text.as_bytes(), Some(Format::Alibaba));
    let devices: Vec<u32> = records.into_iter().map(|record| record.unwrap().device).collect();
    assert_eq!(devices, [0, 1, 2].repeat(100));
}

#[test]
fn recordings_without_headers_follow_each_other() {
    let text = csv((0..100).chain(0..50).chain(3_000..3_002));
    let (_, records) = read(text.as_bytes(), Some(Format::Csv));
    let at = |index: usize| records[index].as_ref().unwrap().at.unwrap().as_nanos() / 1_000_000;
    assert_eq!((at(99), at(100), at(149), at(150)), (99, 99, 148, 3_099));
}

#[test]
fn a_clock_that_was_set_makes_no_idle_years() {
    let today = 1_577_808_144_000;
    for millis in [vec![0, today, today + 1], vec![today, 0, today + 1], vec![today, today + 1, 0]] {
        let text = format!("time_us,op,offset,size\n{}", csv(millis.clone().into_iter()));
        let (times, repairs) = times(&text);
        assert!(times[2] - times[0] <= 1_001, "{millis:?} becomes {times:?}");
        assert!(repairs.gaps + repairs.joined > 0 && !repairs.sentences().is_empty());
    }
    let (_, repairs) = times(&format!("time_us,op,offset,size\n{}", csv([0, today].into_iter())));
    let expected = "a gap of 18261 days between two records was cut to a second: the clock was set";
    assert_eq!(repairs.sentences(), [expected]);
}

#[test]
fn times_of_msr_may_be_earlier_than_the_first() {
    let line = |ticks: u64| format!("{ticks},hm,0,Read,0,512,1\n");
    let (start, second) = (128_166_372_003_061_629, 10_000_000);
    let ticks = [0, 100, 200]
        .map(|at| start + at * second)
        .into_iter()
        .chain([0, 1].map(|at| start - 50 * second + at * second));
    let text: String = ticks.map(line).collect();
    let (times, repairs) = times(&text);
    assert_eq!((times, repairs.joined), (vec![0, 100_000, 200_000, 200_000, 201_000], 1));
}

#[test]
fn a_trace_without_any_order_is_refused() {
    let text = csv((0..2_000).map(|index| index * 7_919 % 2_003 * 10_000));
    let (_, records) = read(text.as_bytes(), Some(Format::Csv));
    let said = records.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(said.starts_with("times go back by more than 2 s 8 times in "), "{said}");
    assert!(said.ends_with("sort the trace by its times"), "{said}");
}

#[test]
fn long_discards_come_in_pieces_and_long_reads_are_refused() {
    let text = format!("{CSV}20,D,4096,{}\n21,R,0,{}\n", (4_u64 << 30) - 4_096, (1_u64 << 30) + 512);
    let (_, records) = read(text.as_bytes(), None);
    let good: Vec<Record> = records.iter().filter_map(|record| record.as_ref().ok().copied()).collect();
    let pieces: Vec<(u64, u64)> =
        good[2..].iter().map(|record| (record.extent.start, record.extent.length)).collect();
    let gib = 1 << 30;
    assert_eq!(
        pieces,
        [(4_096, gib), (4_096 + gib, gib), (4_096 + 2 * gib, gib), (4_096 + 3 * gib, gib - 4_096)]
    );
    assert!(good[2..].iter().all(|record| record.kind == Kind::Discard));
    assert_eq!(records.len() - good.len(), 1);
}

#[test]
fn quotations_are_short_and_without_control_characters() {
    let text = format!("{CSV}13,{}\u{1b}[2J,0,512\n14,\u{1b}[2J,0,512\n", "x".repeat(5_000));
    let (_, records) = read(text.as_bytes(), None);
    let said: Vec<String> =
        records.iter().filter_map(|record| Some(record.as_ref().err()?.to_string())).collect();
    assert!(
        said.len() == 2 && said.iter().all(|said| said.len() < 250 && !said.contains('\u{1b}')),
        "{said:?}"
    );
    let unknown =
        TraceFile::from_reader(Box::new(Cursor::new(vec![b'y'; 5_000])), None).err().unwrap().to_string();
    assert!(unknown.contains(&format!("\"{}\"...", "y".repeat(80))) && !unknown.contains(&"y".repeat(81)));
}

#[test]
fn latin_1_and_bom_are_read_but_utf_16_refused() {
    let mut text = b"\xef\xbb\xbf".to_vec();
    text.extend(
        BLKPARSE.replace("[cat]", "[k\u{e4}se]").chars().map(|c| u8::try_from(u32::from(c)).unwrap()),
    );
    let (format, records) = read(&text, None);
    assert_eq!((format, records.into_iter().map(Result::unwrap).count()), (Format::Blkparse, 5));
    let marked = format!("\u{feff}{CSV}\u{feff}{CSV}");
    assert_eq!(read_all(&marked, Format::Csv).len(), 4);
    let utf_16: Vec<u8> = "\u{feff}time_us,op".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let said = TraceFile::from_reader(Box::new(Cursor::new(utf_16)), None).err().unwrap().to_string();
    assert!(said.starts_with("it is UTF-16, and UTF-8 was expected"), "{said}");
}

#[test]
fn windows_line_ends_make_no_difference() {
    assert_eq!(read_all(&CSV.replace('\n', "\r\n"), Format::Csv), csv_records());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn archives_are_read_file_by_file() {
    let long = format!("{}/part-ab", "folder".repeat(30));
    let packed = gzip(b"21,R,0,512\n");
    let files: [(&str, &[u8]); 5] = [
        ("README.md", b"about"),
        ("empty", b""),
        ("part-aa", CSV.trim_end().as_bytes()),
        (&long, b"20,R,0,512"),
        ("c.gz", &packed),
    ];
    for file in [tar(&files), gzip(&tar(&files)), gzip(&gzip(&tar(&files)))] {
        let (format, records) = read(&file, None);
        let times: Vec<u64> =
            records.into_iter().map(|record| record.unwrap().at.unwrap().as_nanos() / 1_000).collect();
        assert_eq!((format, times), (Format::Csv, vec![0, 12, 20, 21]));
    }
    let whole = tar(&files);
    let cut = whole[..whole.len() - 2_000].to_vec();
    let said = TraceFile::from_reader(Box::new(Cursor::new(cut)), None).err().unwrap().to_string();
    assert_eq!(said, "the tar archive is damaged or cut off");
}

#[test]
fn other_compressions_are_named() {
    for (mark, name) in [("BZh91AY", "bzip2"), ("PK\u{3}\u{4}", "zip")] {
        let said =
            TraceFile::from_reader(Box::new(Cursor::new(mark.as_bytes().to_vec())), None).err().unwrap();
        assert!(said.to_string().starts_with(&format!("it is compressed by {name}, and xz")), "{said}");
    }
    let deep = (0..6).fold(CSV.as_bytes().to_vec(), |inner, _| gzip(&inner));
    let said = TraceFile::from_reader(Box::new(Cursor::new(deep)), None).err().unwrap().to_string();
    assert!(said.starts_with("it is compressed more than 4 times"), "{said}");
}
