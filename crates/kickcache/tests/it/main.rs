//! The product from outside: the built program, real NBD clients, kills and bad input.
//!
//! Every test starts daemons of its own in a directory of its own under `/var/tmp` (`KICKCACHE_IT_DIR` names
//! another place; it must support `O_DIRECT`). A test whose tool is missing prints `skipped: why` and passes.
//!
//! `KICKCACHE_IT_SERVER=qemu-nbd` runs the tests that need no cache against qemu-nbd instead: that proves the
//! tests themselves.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

mod addresses;
mod advise;
mod another_cache;
mod backend_program;
mod bad_clients;
mod bad_command_lines;
mod bad_input;
mod bad_neighbour;
mod bad_spot;
mod bench;
mod bound_origin;
mod cells;
mod certificates;
mod client;
mod complete;
mod copies;
mod crash;
mod daemon;
mod damaged_notes;
mod device_faults;
mod disk;
mod drain;
mod evil_server;
mod faulty;
mod filesystem;
mod fio_verify;
mod fuse;
mod gains;
mod grow;
mod guest;
mod guests;
mod hanging_devices;
mod history;
mod hostile_text;
mod judge;
mod killed;
mod leave_out;
mod ledger;
mod limits;
mod log;
mod lost_segment;
mod membership;
mod metrics;
mod missing_cache;
mod mounted_kills;
mod nbd_server;
mod neighbours;
mod no_flush;
mod offline_tools;
mod older_copy;
mod one_of_two;
mod other_user;
mod out_of_service;
mod pair;
mod power_cuts;
mod record;
mod reload;
mod remedies;
mod remote_evil;
mod remote_extents;
mod remote_origin;
mod remote_swapped;
mod replace;
mod report;
mod resize;
mod rng;
mod scratch;
mod service_manager;
mod shards;
mod signals;
mod simulate;
mod tls;
mod tls_origin;
mod tmpfs;
mod told;
mod tools;
mod top;
mod typed;
mod unnoted;
mod versions;
mod virtio_driver_crate;
mod volumes;
mod which_is_lost;
mod without_cache;
mod wrong_devices;
