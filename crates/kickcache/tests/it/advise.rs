//! `kickcache advise` as people use it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::daemon::{KICKCACHE, Spec, VOLUME};
use crate::scratch::{MIB, Scratch};
use crate::{need_kickcache, tools};

const CLOUD: &str = "--device cloud-slow --cache-device cloud-fast-20g --fast-device cloud-fast-80g --size 25GB \
                     --volume-size 100GB --repeat 1";

fn contributed(name: &str) -> OsString {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name).into()
}

fn advise(files: &[(&str, OsString)], words: &str) -> Output {
    let files = files.iter().flat_map(|(option, file)| [OsString::from(option), file.clone()]);
    let words = words.split_whitespace().map(OsString::from);
    tools::output(KICKCACHE, std::iter::once("advise".into()).chain(files).chain(words).collect::<Vec<_>>())
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {} {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_small_cache_is_nearly_as_fast_at_half_price() {
    need_kickcache!();
    let files = [("--job", contributed("cloud.fio")), ("--prices", contributed("prices.toml"))];
    let output = advise(&files, &format!("{CLOUD} --json"));
    assert!(output.status.success(), "{}", said(&output));
    let advice = json(&output);
    let costs: Vec<String> = advice["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{:.2}", one["cost_per_month"].as_f64().unwrap()))
        .collect();
    assert_eq!(costs, ["3.07", "6.30", "12.90"], "the slow disk, the cache, the fast disk");
    assert_eq!(advice["recommended"], 1, "{advice:#}");
    let iops = |index: usize| advice["candidates"][index]["iops"].as_f64().unwrap();
    assert!(iops(1) > 2.0 * iops(0) && iops(1) > 0.85 * iops(2), "{advice:#}");
    assert!(advice["reason"].as_str().unwrap().contains("6.30 $ a month"), "{advice:#}");
}

#[test]
fn unmet_needs_exit_with_1_and_others_with_the_cheapest() {
    need_kickcache!();
    let files = [("--job", contributed("cloud.fio")), ("--prices", contributed("prices.toml"))];
    let of = |need: &str| advise(&files, &format!("{CLOUD} --json --need {need}"));
    let none = of("iops=50000,cost=7");
    assert_eq!(none.status.code(), Some(1));
    assert!(said(&none).contains("None has at least 50,000 IOPS"), "{}", said(&none));
    assert_eq!(json(&none)["recommended"], Value::Null);
    let slow = of("iops=1000");
    assert!(slow.status.success(), "{}", said(&slow));
    assert_eq!(json(&slow)["recommended"], 0);
}

#[test]
fn a_trace_gets_advice_with_device_life_and_a_page() {
    need_kickcache!();
    let scratch = Scratch::new();
    let mut trace = "time_us,op,offset,size\n".to_owned();
    for index in 0..6_000_u64 {
        let offset = (index * index % 12_001) * 8_192;
        let operation = if index % 3 == 0 { 'W' } else { 'R' };
        writeln!(trace, "{},{operation},{offset},4096", index * 5_000).unwrap();
    }
    fs::write(scratch.path("vm.csv"), trace).unwrap();
    let page = scratch.path("advice.html");
    let files = [("--trace", scratch.path("vm.csv").into()), ("-o", page.clone().into())];
    let output = advise(&files, "--size 1%,16M,32M --endurance 600TBW --price cache=0.08/GiB-month");
    assert!(output.status.success(), "{}", said(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    for part in
        ["no cache", "cache of 16 MiB", "cache of 32 MiB", "all on the fast device", "LIFE", "COST/MONTH"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(
        table.contains("caches of 1 % (") && table.contains(" are left out: 8 MiB is the least"),
        "{table}"
    );
    assert!(!table.contains("too slow for the load"), "{table}");
    let fast = advise(&files[..1], "--size 16M --speed 20");
    let table = String::from_utf8_lossy(&fast.stdout);
    assert!(table.contains("too slow for the load: no cache, cache of 16 MiB; latencies"), "{table}");
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("Costs and figures of each candidate") && page.contains("a mean latency of"),
        "{table}"
    );
}

#[test]
fn bad_advice_is_not_given() {
    need_kickcache!();
    let job = [("--job", contributed("cloud.fio"))];
    for (words, expected) in [
        ("--need years=5", "write --endurance"),
        ("--need cost=5", "no price is known"),
        ("--need speed=5", "is not a need"),
        ("--price cache=5", "is not a price"),
        ("--prices /nowhere.toml", "cannot be read"),
        ("--size 1M", "give larger sizes"),
        ("--device floppy", "there is no device and no file"),
        ("--mode bypass", "is no mode of a simulated cache"),
        ("--endurance ever", "is such as 600TBW"),
    ] {
        let output = advise(&job, words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words}: {}", said(&output));
    }
}

#[test]
fn a_served_volume_has_a_curve_for_advice() {
    need_kickcache!();
    let scratch = Scratch::new();
    let origin = scratch.random("origin", 64 * MIB, 1);
    let daemon = Spec::new(&scratch, &origin, "write-back", "32M").start();
    let control: OsString = daemon.spec.control().into();
    let volume = [("--volume", OsString::from(VOLUME)), ("--control", control.clone())];
    let early = advise(&volume, "");
    assert_eq!(early.status.code(), Some(1));
    assert!(said(&early).contains("has had no reads"), "{}", said(&early));

    let mut client = daemon.connect();
    client.write(32 * MIB, &[7; 1 << 20]);
    for start in [0, 0, 32 * MIB, 0] {
        drop(client.read(start, 1 << 20));
    }
    let curve = daemon.status()["caches"][0]["volumes"][0]["lru_curve"].clone();
    assert_eq!(
        (&curve["read_blocks"], &curve["footprint_bytes"]),
        (&1_024.into(), &(2 * MIB).into()),
        "{curve:#}"
    );
    assert_eq!(
        curve["points"][0]["hit_ratio"], 0.75,
        "one MiB of the four read was neither read nor written: {curve:#}"
    );
    let table = daemon.control(&["status", "--curve"]);
    assert!(table.contains("4 MiB were read") && table.contains("75.0 ± 0.0 %"), "{table}");

    let output = advise(&volume, "--size 16M --json");
    assert!(output.status.success(), "{}", said(&output));
    let advice = json(&output);
    assert_eq!(advice["candidates"][1]["hit_ratio"], 0.75, "{advice:#}");
    let iops = |index: usize| advice["candidates"][index]["iops"].as_f64().unwrap();
    assert!(iops(1) > iops(0), "{advice:#}");
    let unknown = advise(&[("--volume", OsString::from("nobody")), ("--control", control)], "");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(said(&unknown).contains("there is no volume `nobody` here; there is v"), "{}", said(&unknown));
}
