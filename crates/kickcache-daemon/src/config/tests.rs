//! Tests of the configuration file.

use std::fmt::Write as _;
use std::path::Path;

use expect_test::expect;

use super::{parse, read};
use crate::driver::device::AccessMode;
use crate::driver::io_engine::IoEngine;
use crate::plan::cutoff::Cutoff;
use crate::words::{AdmissionWord, ModeWord};

const WHOLE: &str = r#"
control = "/run/kickcache/control.sock"
io-engine = "threads"
memory-limit = "96M"
insecure-tcp = true

[[cache]]
device = "/dev/nvme0n1p4"
size = "100G"
[[cache.volume]]
name = "vm1"
origin = "/dev/sdb"
mode = "write-back"
admission = "second-touch"
sequential-cutoff = "off"
fill-window-max = "64K"
dirty-low = "5%"
dirty-high = "20%"
idle-after = "3s"
writeback-rate = "50M/s"
writeback-iops = 200
client-bandwidth = "100M/s"
client-iops = 500
client-burst = "30s"
room-min = "20%"
room-max = "50G"
read-only = true
nbd = ["unix:/run/kickcache/vm1.sock", "tcp:0.0.0.0:10809"]
[[cache.volume]]
name = "vm2"
origin = "/dev/sdc"

[[cache]]
device = "/var/cache/k.img"
[[cache.volume]]
name = "vm3"
origin = "/dev/sdd"
"#;

#[test]
fn every_key_is_read() {
    let plan = parse(Path::new("k.toml"), WHOLE).unwrap();
    assert_eq!(plan.control, Path::new("/run/kickcache/control.sock"));
    assert_eq!((plan.io_engine, plan.memory_limit.bytes()), (IoEngine::Threads, 96 << 20));
    assert_eq!(plan.caches.len(), 2);
    assert_eq!(plan.caches[0].size.unwrap().bytes(), 100 << 30);
    let vm1 = &plan.caches[0].volumes[0];
    assert_eq!((vm1.mode, vm1.admission), (ModeWord::WriteBack, AdmissionWord::SecondTouch));
    assert_eq!((vm1.sequential_cutoff, vm1.access), (Cutoff::Off, AccessMode::ReadOnly));
    assert_eq!(vm1.fill_window_max.bytes(), 64 << 10);
    assert_eq!((vm1.dirty_marks().low(), vm1.dirty_marks().high(), vm1.idle_after.as_secs()), (51, 204, 3));
    assert_eq!(vm1.served_by().nbd.addresses().len(), 2);
}

#[test]
fn the_example_in_contrib_is_right() {
    let plan = parse(Path::new("k.toml"), include_str!("../../../../contrib/kickcache.toml")).unwrap();
    assert_eq!(plan.caches[0].volumes.len(), 2);
}

#[test]
fn missing_keys_have_their_defaults() {
    let plan = parse(Path::new("k.toml"), WHOLE).unwrap();
    let vm3 = &plan.caches[1].volumes[0];
    assert_eq!(vm3.mode, ModeWord::WriteThrough);
    assert_eq!(vm3.sequential_cutoff, Cutoff::Auto);
    assert!(vm3.served_by().nbd.addresses()[0].to_string().ends_with("/kickcache/vm3.nbd.sock"));
}

#[test]
fn volumes_of_one_cache_device_may_share_an_address() {
    let nbd = "nbd = ['unix:/x']";
    let text = two(&format!("name = 'a'\norigin = '/p'\n{nbd}"), &format!("{VOLUME}{nbd}"));
    assert_eq!(parse(Path::new("k.toml"), &text).unwrap().caches[0].volumes.len(), 2);
}

const VOLUME: &str = "name = 'v'\norigin = '/o'\n";

fn with(cache: &str, volume: &str) -> String {
    format!("[[cache]]\ndevice = '/c'\n{cache}\n[[cache.volume]]\n{VOLUME}{volume}")
}

fn two(first: &str, second: &str) -> String {
    format!("[[cache]]\ndevice = '/c'\n[[cache.volume]]\n{first}\n[[cache.volume]]\n{second}\n")
}

#[test]
fn metrics_get_a_local_address_of_their_own() {
    let read =
        |metrics: &str| parse(Path::new("k.toml"), &format!("{metrics}\n{}", with("", "nbd = ['unix:/x']")));
    assert_eq!(read("metrics = 'tcp:[::1]:9469'").unwrap().metrics.unwrap().to_string(), "tcp:[::1]:9469");
    assert!(read("insecure-tcp = true\nmetrics = 'tcp:0.0.0.0:9469'").is_ok());
    let refused = [
        "metrics = 9469",
        "metrics = '9469'",
        "metrics = 'tcp:0.0.0.0:9469'",
        "metrics = 'unix:/etc/../x'",
        "control = '/y'\nmetrics = 'unix:/y'",
    ]
    .map(|metrics| format!("{}\n", read(metrics).unwrap_err()));
    expect![[r#"
        k.toml, line 1: `metrics` cannot be the integer `9469`; write it as in metrics = "tcp:127.0.0.1:9469"
        k.toml, line 1: `9469` is not an address for metrics; write tcp:127.0.0.1:PORT or unix:PATH, such as tcp:127.0.0.1:9469
        k.toml: metrics at tcp:0.0.0.0:9469 can be read from other machines, without encryption and without a password; use a loopback address or a unix socket, or accept it with --insecure-tcp (insecure-tcp = true)
        k.toml: metrics are to be served at unix:/etc/../x, and so is the volume `v`; choose another address for either
        k.toml: metrics are to be served at unix:/y, and so is the control socket; choose another address for either
    "#]].assert_eq(&refused.concat());
}

#[test]
fn tls_needs_certificates_and_names_of_clients_need_tls() {
    let read = |tls: &str, volume: &str| parse(Path::new("k.toml"), &format!("{tls}\n{}", with("", volume)));
    let folder = "tls-certificates = '/etc/tls'\n";
    let require = format!("{folder}tls = 'require'");
    let plan = read(&require, "nbd = ['tcp:0.0.0.0:1']\nallow-client = ['vm1', 'CN=vm2']").unwrap();
    assert!(plan.tls.is_authenticated());
    let names = plan.caches[0].volumes[0].frontends.nbd.allowed_clients().iter().map(ToString::to_string);
    assert_eq!(names.collect::<Vec<_>>(), ["vm1", "CN=vm2"]);
    let refused = [
        ("tls = 'require'", ""),
        ("tls = 'yes'", ""),
        ("tls = true", ""),
        (folder, ""),
        ("tls-verify-peer = 'off'", ""),
        (&require, "vhost-user = '/v'"),
        (&require, "allow-client = []"),
        (&require, "allow-client = ['CN=']"),
        (&require, "vhost-user = '/v'\nallow-client = ['a']"),
        ("", "allow-client = ['a']"),
        (&format!("{folder}tls = 'on'"), "allow-client = ['a']"),
        (&format!("{folder}tls = 'on'"), "nbd = ['tcp:0.0.0.0:1']"),
        (&format!("{require}\ntls-verify-peer = 'off'"), "nbd = ['tcp:0.0.0.0:1']"),
        (
            &require,
            "nbd = ['tcp:127.0.0.1:1']\n[[cache.volume]]\nname = 'w'\norigin = '/w'\nallow-client = 'a'",
        ),
    ]
    .map(|(tls, volume)| format!("{}\n", read(tls, volume).unwrap_err()));
    expect![[r#"
        k.toml: tls needs certificates; name their folder with --tls-certificates (tls-certificates = "/etc/kickcache/tls"), see docs/how-to/tls.md
        k.toml, line 1: `tls` cannot be `yes`; possible values: off, on, require
        k.toml, line 1: `tls` cannot be true; write it as in tls = "require"
        k.toml: there is a folder of certificates but no TLS; use --tls=require (tls = "require"), or omit the folder
        k.toml: tls-verify-peer is about clients with TLS, but TLS is off; use --tls=require (tls = "require"), or omit it
        k.toml: tls is for NBD, and no volume is served over NBD; give one an address (nbd = ["tcp:0.0.0.0:10809"]), or leave tls out
        k.toml, line 6: allow-client is empty; name a client, or omit it to allow all
        k.toml, line 6: a client's name is empty; write one as it is in its certificate, such as vm1, CN=vm1 or DNS=vm1.example.org
        k.toml: tls is for NBD, and no volume is served over NBD; give one an address (nbd = ["tcp:0.0.0.0:10809"]), or leave tls out
        k.toml: the volume `v` is for clients with names in their certificates (allow-client), but clients without a certificate are served, too; use --tls=require (tls = "require") without --tls-verify-peer=off
        k.toml: the volume `v` is for clients with names in their certificates (allow-client), but clients without a certificate are served, too; use --tls=require (tls = "require") without --tls-verify-peer=off
        k.toml: tcp:0.0.0.0:1 can be reached from other machines, and NBD has neither encryption nor a password here; use a unix socket or a loopback address, TLS with certificates of clients (--tls=require, docs/how-to/tls.md), or accept it with --insecure-tcp (insecure-tcp = true)
        k.toml: tcp:0.0.0.0:1 can be reached from other machines, and NBD has neither encryption nor a password here; use a unix socket or a loopback address, TLS with certificates of clients (--tls=require, docs/how-to/tls.md), or accept it with --insecure-tcp (insecure-tcp = true)
        k.toml, line 13: `allow-client` cannot be the string "a"; write it as in allow-client = ["vm1"]
    "#]].assert_eq(&refused.concat());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of bad files")]
fn mistakes_are_refused_with_a_sentence() {
    let long = "x".repeat(64);
    let texts = [
        String::new(),
        "cache = ".into(),
        "control = /x".into(),
        "controll = '/x'".into(),
        "control = 5".into(),
        "control = '/a'\ncontrol = '/b'".into(),
        format!("control = '/{}'\n{}", "y".repeat(107), with("", "")),
        format!("control = ''\n{}", with("", "")),
        format!("state = ''\n{}", with("", "")),
        format!("[[cache]]\ndevice = ''\n{VOLUME}"),
        "io-engine = 'aio'".into(),
        "memory-limit = '32M'".into(),
        "memory-limit = 256".into(),
        "[[cache]]\nsize = '1G'".into(),
        format!("[[cache]]\ndevice = '/c'\n[[volume]]\n{VOLUME}"),
        "[[cache.volume]]\nname = 'v'\norigin = '/o'\nublk = 0".into(),
        "[[cache]]\ndevice = '/c'".into(),
        with("sizes = '1G'", ""),
        with("size = '0'", ""),
        with("size = -1", ""),
        with("size = 1.5", ""),
        with("size = '1e3'", ""),
        with("size = '10 gb'", ""),
        with("size = '16777216T'", ""),
        with("size = 10000000", ""),
        with("write-budget = '50G'", ""),
        with("write-budget = 50", ""),
        with("endurance = 'ever'", ""),
        with("", "mode = 'write-backwards'"),
        with("", "mode = 'write-back'\nmode = 'bypass'"),
        with("", "moed = 'bypass'"),
        with("", "admission = 'all'"),
        with("", "sequential-cutoff = '0'"),
        with("", "sequential-cutoff = 'on'"),
        with("", "fill-window-max = '48K'"),
        with("", "fill-window-max = '2M'"),
        with("", "guest-block = '1k'"),
        with("", "serial = ''"),
        with("", "serial = 'a-serial-of-21-bytes.'"),
        with("", "serial = 'a b'"),
        with("", "origin-timeout = '0s'"),
        with("", "dirty-low = '0%'"),
        with("", "dirty-limit = 70"),
        with("", "dirty-low = '60%'"),
        with("", "idle-after = '1ms'"),
        with("", "idle-after = 5"),
        with("", "writeback-rate = 50"),
        with("", "writeback-rate = '1K/s'"),
        with("", "writeback-iops = 0"),
        with("", "writeback-iops = '200'"),
        with("", "client-bandwidth = 'much'"),
        with("", "client-iops = -1"),
        with("", "client-burst = '2h'"),
        with("", "room-min = '0%'"),
        with("", "room-min = 20"),
        with("", "room-max = '4K'"),
        with("", "room-min = '30%'\nroom-max = '20%'"),
        two("name = 'a'\norigin = '/p'\nroom-min = '40%'", &format!("{VOLUME}room-min = '50%'")),
        with("", "ublk = 64"),
        with("", "ublk = 'yes'"),
        with("", "ublk = \"any\""),
        with("", "ublk = true\nublk-queues = 17"),
        with("", "ublk = true\nublk-depth = 0"),
        with("", "ublk = true\nublk-queues = 16\nublk-depth = 1024"),
        with("", "ublk-queues = 2"),
        with("", "ublk = false\nublk-depth = 64"),
        with("", "vhost-user = ''"),
        two("name = 'a'\norigin = 'nbds://store/a?tls=1'", VOLUME),
        two("name = 'a'\norigin = 'nbd://store/x'", "name = 'b'\norigin = 'nbd://store:10809/x'"),
        with("", "nbd = 'unix:/x'"),
        with("", "vhost-user = 3"),
        with("", "mode = 3"),
        with("", "read-only = 'yes'"),
        with("", "ublk = true\nublk-queues = '2'"),
        with("", "vhost-user = '/etc/../x'\nnbd = ['unix:/x']"),
        format!("control = '/etc/../x'\n{}", with("", "nbd = ['unix:/x']")),
        with("", "nbd = []"),
        with("", "nbd = ['/x']"),
        with("", "nbd = ['tcp:0.0.0.0:10809']"),
        with("", "nbd = ['unix:/x', 'unix:/x']"),
        format!("control = '/x'\n{}", with("", "nbd = ['unix:/x']")),
        format!(
            "{}\n[[cache]]\ndevice = '/d'\n[[cache.volume]]\nname = 'w'\norigin = '/p'\nnbd = ['unix:/x']",
            with("", "nbd = ['unix:/x']")
        ),
        two("name = ''\norigin = '/o'", VOLUME),
        two(&format!("name = '{long}'\norigin = '/o'"), VOLUME),
        two("name = 'a/b'\norigin = '/o'", VOLUME),
        two("name = 'a'\norigin = '/o'", VOLUME),
        two("name = 'v'\norigin = '/p'", VOLUME),
        two("name = 'a'\norigin = '/c'", VOLUME),
        two("name = 'a'", VOLUME),
        (0..17).fold("[[cache]]\ndevice = '/c'\n".into(), |mut text, i| {
            let _ = writeln!(text, "[[cache.volume]]\nname = 'v{i}'\norigin = '/o{i}'");
            text
        }),
    ];
    let mut found = String::new();
    for text in &texts {
        let _ = writeln!(found, "{}", parse(Path::new("k.toml"), text).unwrap_err());
    }
    expect![[r#"
        k.toml: there is no cache device to serve; name one with --cache, or with [[cache]] in the configuration file
        k.toml, line 1: `cache` has no value
        k.toml, line 1: the value of `control` needs quotes; write it as in control = "/run/kickcache/control.sock"
        k.toml, line 1: there is no key `controll` here; there is control, status-socket, metrics, state, user, may-open, log-format, log-level, io-engine, memory-limit, insecure-tcp, tls, tls-certificates, tls-verify-peer, cache
        k.toml, line 1: `control` cannot be the integer `5`; write it as in control = "/run/kickcache/control.sock"
        k.toml, line 2: `control` is set for the second time; keep one of the two lines
        k.toml: the socket path `/yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy` has 108 bytes, a unix socket takes at most 107; choose a shorter one
        k.toml: the path of a socket is empty; name a file, such as /run/kickcache/control.sock
        k.toml: the path of the state directory is empty; name a file, folder or device
        k.toml, line 3: there is no key `name` here; there is device, size, discard, write-budget, endurance, volume
        k.toml, line 1: `io-engine` cannot be `aio`; possible values: auto, io_uring, threads
        k.toml, line 1: `32M` is no memory limit; write 64M to 64G, such as 256M (docs/reference/memory.md)
        k.toml, line 1: `memory-limit` cannot be the integer `256`; write it as in memory-limit = "256M"
        k.toml, line 1: the key `device` is missing
        k.toml, line 3: a volume belongs to a cache device: write [[cache.volume]], below its [[cache]]
        k.toml, line 1: write [[cache]] with the key `device` above it, for [[cache.volume]] or the keys of a cache device
        k.toml: the cache device /c has no volume; add a [[cache.volume]] with its name and origin
        k.toml, line 3: there is no key `sizes` here; there is device, size, discard, write-budget, endurance, volume
        k.toml: a cache file of 0 bytes is not possible: it needs 8 MiB to 15 TiB
        k.toml, line 3: `-1` is negative; a size is a number of bytes, such as 512M or 10G
        k.toml, line 3: `size` cannot be the floating point `1.5`; write a size such as "10G", or a number of bytes
        k.toml, line 3: `1e3` is not a size; write a number with K, M, G or T, such as 512M or 10G
        k.toml, line 3: `10 gb` has a space in it; write the number and its unit together, such as 10GB
        k.toml, line 3: `16777216T` is larger than any device: a size must be below 16777216T
        k.toml: a cache file of 10000000 bytes is not possible: it must be a multiple of 4096, such as 9998336
        k.toml, line 3: `50G` is no write budget; write bytes in an hour, a day or a week, such as 50G/day, or drive writes a day, such as 0.5dwpd
        k.toml, line 3: `write-budget` cannot be the integer `50`; write it as in write-budget = "50G/day"
        k.toml, line 3: `ever` is not a size; write a number with K, M, G or T, such as 512M or 10G; an endurance is such as 600TBW
        k.toml, line 7: `mode` cannot be `write-backwards`; possible values: write-through, writethrough, wt, wb, write-back, writeback, wa, write-around, writearound, bypass
        k.toml, line 8: `mode` is set for the second time; keep one of the two lines
        k.toml, line 7: there is no key `moed` here; there is name, origin, origin-timeout, mode, admission, sequential-cutoff, fill-window-max, dirty-low, dirty-high, dirty-limit, idle-after, writeback-rate, writeback-iops, client-bandwidth, client-iops, client-burst, room-min, room-max, read-only, origin-no-flush, nbd, allow-client, vhost-user, ublk, ublk-queues, ublk-depth, guest-block, serial
        k.toml, line 7: `admission` cannot be `all`; possible values: pressure, always, second-touch
        k.toml, line 7: a cut-off of 0 would bypass every read; write `off` to cache streams too
        k.toml, line 7: `on` is not a size; write a number with K, M, G or T, such as 512M or 10G, or `auto` or `off`
        k.toml: volume `v`: a fill window of 49152 bytes is not possible; write a power of two from 4K to 1M, such as 64K
        k.toml: volume `v`: a fill window of 2097152 bytes is not possible; write a power of two from 4K to 1M, such as 64K
        k.toml: volume `v`: a guest's block of 1024 bytes is not possible; write 512 or 4096
        k.toml, line 7: the serial number "" has 0 bytes; write 1 to 20, such as vm1-data
        k.toml, line 7: the serial number "a-serial-of-21-bytes." has 21 bytes; write 1 to 20, such as vm1-data
        k.toml, line 7: the serial number "a b" contains ' '; ASCII letters, digits and - _ . + @ : are possible
        k.toml, line 7: `0s` is no time to wait; write 1s to 24h, such as 30s, 2m or 1h
        k.toml, line 7: `0%` is no mark for dirty blocks; write 1% to 90% of the cache device
        k.toml, line 7: `dirty-limit` cannot be the integer `70`; write it as in dirty-limit = "70%"
        k.toml: volume `v`: dirty-low is 60%, dirty-high 50% and dirty-limit 70%; low must be below high, and high at most the limit
        k.toml, line 7: `1ms` is no idle time; write 10ms to 24h, such as 500ms, 5s or 2m
        k.toml, line 7: `idle-after` cannot be the integer `5`; write it as in idle-after = "500ms"
        k.toml, line 7: `writeback-rate` cannot be the integer `50`; write it as in writeback-rate = "50M/s"
        k.toml, line 7: `1K/s` is too little to go on with; write a rate of 64K/s or more, such as 50M/s
        k.toml, line 7: `0` is no number of requests a second; write 1 to 100000000, such as 200
        k.toml, line 7: `writeback-iops` cannot be the string "200"; write it as in writeback-iops = 200
        k.toml, line 7: `much` is not a size; write a number with K, M, G or T, such as 512M or 10G; a rate is the same with /s behind it, such as 50M/s
        k.toml, line 7: `-1` is no number of requests a second; write 1 to 100000000, such as 200
        k.toml, line 7: `2h` is no time for a burst; write 10ms to 1h, such as 1s or 30s
        k.toml, line 7: `0%` is no part of a cache device; write 1% to 100%, or a size such as 20G
        k.toml, line 7: `room-min` cannot be the integer `20`; write it as in room-min = "20%"
        k.toml, line 7: `4K` is too little of a cache device; write 1M or more, or a part such as 20%
        k.toml: volume `v`: room-min is 30% and room-max 20%; the minimum must be at most the maximum
        k.toml: the cache device /c: the room-min of its volumes are 90% in total, but at most 80% can be reserved: fills and writes need free space; lower them
        k.toml, line 7: `ublk` cannot be the integer `64`; write true, false, or the number of a ublk device, 0 to 63
        k.toml, line 7: `ublk` cannot be the string "yes"; write true, false, or the number of a ublk device, 0 to 63
        k.toml, line 7: `ublk` cannot be the string "any"; write true, false, or the number of a ublk device, 0 to 63
        k.toml, line 8: 17 queues are not possible; write 1 to 16
        k.toml, line 8: a depth of 0 is not possible; write 1 to 1024
        k.toml: volume `v`: 16 ublk queues of 1024 requests are 16384 requests of up to 256 KiB, and 2048 are possible; write fewer queues (ublk-queues), or a lower depth (ublk-depth)
        k.toml: volume `v`: ublk-queues and ublk-depth are settings of a block device, and it is none; write ublk = true or its number, or leave them out
        k.toml: volume `v`: ublk-queues and ublk-depth are settings of a block device, and it is none; write ublk = true or its number, or leave them out
        k.toml: volume `v`: the path of its vhost-user socket is empty; write one, such as /run/kickcache/vm1.vhost
        k.toml, line 5: `nbds://store/a?tls=1` is not the URI of an NBD export: only tls-certificates=DIR and tls-hostname=NAME may follow the ?
        k.toml: nbd://store:10809/x is named twice, as the origin of `a` and as the origin of `b`; each device can have one part only
        k.toml, line 7: `nbd` cannot be the string "unix:/x"; write it as in nbd = ["unix:/run/kickcache/vm1.sock"]
        k.toml, line 7: `vhost-user` cannot be the integer `3`; write it as in vhost-user = "/run/kickcache/vm1.vhost"
        k.toml, line 7: `mode` cannot be 3; write it as in mode = "write-back"
        k.toml, line 7: `read-only` cannot be the string "yes"; write it as in read-only = true
        k.toml, line 8: `ublk-queues` cannot be the string "2"; write it as in ublk-queues = 2
        k.toml: the volume `v` listens on unix:/x twice; once is enough
        k.toml: the volume `v` listens on the path of the control socket; choose another path for either
        k.toml: the volume `v` has no address; give it one, such as nbd = ["unix:/run/kickcache/v.sock"], vhost-user = "/run/kickcache/v.vhost" or ublk = true
        k.toml, line 7: `/x` is not an NBD address; write unix:PATH or tcp:HOST:PORT
        k.toml: tcp:0.0.0.0:10809 can be reached from other machines, and NBD has neither encryption nor a password here; use a unix socket or a loopback address, TLS with certificates of clients (--tls=require, docs/how-to/tls.md), or accept it with --insecure-tcp (insecure-tcp = true)
        k.toml: the volume `v` listens on unix:/x twice; once is enough
        k.toml: the volume `v` listens on the path of the control socket; choose another path for either
        k.toml: the volumes `v` and `w` both listen on unix:/x, behind different cache devices; give each an address of its own
        k.toml: the volume name `` cannot be used: it is empty; give the volume a name, such as vm1
        k.toml: the volume name `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx` cannot be used: it has 64 bytes, 63 are possible
        k.toml: the volume name `a/b` cannot be used: it contains '/'; letters, digits and - _ . + @ : are possible
        k.toml: /o is named twice, as the origin of `a` and as the origin of `v`; each device can have one part only
        k.toml: two volumes have the name `v`; each needs a name of its own
        k.toml: /c is named twice, as a cache device and as the origin of `a`; each device can have one part only
        k.toml, line 3: the key `origin` is missing
        k.toml: the cache device /c has 17 volumes, it can serve at most 16; give the others another cache device
    "#]].assert_eq(&found);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = anyhow::Error::from(read(Path::new("/nowhere/k.toml")).unwrap_err());
    let sentence = format!("{error:#}");
    assert_eq!(
        sentence,
        "the configuration file /nowhere/k.toml cannot be read: No such file or directory (os error 2)"
    );
}

/// The corpus of the fuzz target `config`, whole and cut short: a plan or one sentence.
#[test]
fn the_fuzzing_corpus_is_read_or_refused() {
    crate::corpus::replay("config", 10, |bytes| {
        let text = std::str::from_utf8(bytes).unwrap();
        for (end, _) in text.char_indices().step_by(7).chain([(text.len(), ' ')]) {
            if let Err(error) = parse(Path::new("k.toml"), &text[..end]) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    });
}

#[test]
fn an_oversized_file_is_not_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path| match read(path).unwrap_err() {
        super::ConfigError::Read { source, .. } => source.to_string(),
        other => panic!("{other}"),
    };
    let long = folder.path().join("long");
    std::fs::File::create(&long).unwrap().set_len(1 << 40).unwrap();
    assert!(refused(&long).contains("more than 1 MiB"));
    for endless in ["/dev/zero", "/"] {
        assert_eq!(refused(Path::new(endless)), "it is no regular file");
    }
}
