//! Faults in memory that a front end shares: the file behind it can be cut short at any time. An access past the new
//! end raises SIGBUS, which would end the daemon and thus the disks of all other guests.
//!
//! The handler maps zero pages over the region of the fault and marks it as lost.
//!
//! Invariants:
//! - The handler takes no lock and allocates no memory: the table has a fixed size and consists of atomics.
//! - A region is in the table from when it was mapped to before it is unmapped, and only the thread that serves its
//!   guest touches it or takes it out.

use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

const REGIONS_MAX: usize = 4096;

static TABLE: [Row; REGIONS_MAX] = [const { Row::new() }; REGIONS_MAX];
/// Rows from here on were never used.
static ROWS_USED: AtomicUsize = AtomicUsize::new(0);
/// Whether any region was ever lost.
static ANY_LOST: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();

/// A region: from `start` to `end`, which is zero while the row is free.
struct Row {
    taken: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

impl Row {
    const fn new() -> Row {
        Row {
            taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
        }
    }
}

/// A mapped region with guarded faults, which do not end the process; dropped before the region is unmapped.
#[derive(Debug)]
pub(super) struct Guard {
    row: usize,
}

impl Guard {
    /// Guards memory that is mapped already and that no other code maps over; fails if `REGIONS_MAX` regions are
    /// guarded.
    pub(super) fn new(start: *const u8, length: usize) -> io::Result<Guard> {
        INSTALLED.call_once(install);
        let free =
            |row: &Row| row.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let row = TABLE.iter().position(free);
        let row = row.ok_or_else(|| io::Error::other(format!("{REGIONS_MAX} regions are shared already")))?;
        let entry = &TABLE[row];
        entry.lost.store(false, Ordering::Relaxed);
        entry.start.store(start.addr(), Ordering::Release);
        entry.end.store(start.addr() + length, Ordering::Release);
        ROWS_USED.fetch_max(row + 1, Ordering::AcqRel);
        Ok(Guard { row })
    }

    /// Whether memory of the region was missing when it was accessed. If so, data read from it before must
    /// not be used.
    pub(super) fn is_lost(&self) -> bool {
        // The access precedes the check.
        compiler_fence(Ordering::SeqCst);
        TABLE[self.row].lost.load(Ordering::Acquire)
    }
}

/// Whether memory of any region, of any guest, was ever missing when it was accessed.
pub(super) fn is_any_lost() -> bool {
    compiler_fence(Ordering::SeqCst);
    ANY_LOST.load(Ordering::Acquire)
}

impl Drop for Guard {
    fn drop(&mut self) {
        let entry = &TABLE[self.row];
        entry.end.store(0, Ordering::Release);
        entry.start.store(0, Ordering::Release);
        entry.taken.store(false, Ordering::Release);
    }
}

fn find(address: usize) -> Option<&'static Row> {
    let rows = &TABLE[..ROWS_USED.load(Ordering::Acquire).min(REGIONS_MAX)];
    rows.iter().find(|row| {
        let end = row.end.load(Ordering::Acquire);
        address < end && row.start.load(Ordering::Acquire) <= address
    })
}

fn install() {
    // SAFETY: an action of zeroes is one without flags and with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle_fault;
    action.sa_sigaction = handler as libc::sighandler_t;
    // The handler runs on the stack that Rust's runtime keeps for overflows: a fault there is an overflow of
    // a stack, not a fault of a guest.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler only does async-signal-safe operations, and stays for as long as the process lives.
    let installed = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0, "SIGBUS can be caught");
}

extern "C" fn handle_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives the handler a siginfo that is valid while it runs.
    let info = unsafe { &*info };
    if info.si_code > 0 {
        // SAFETY: a SIGBUS that the kernel sent has an address.
        let address = unsafe { info.si_addr() }.addr();
        if find(address).is_some_and(replace) {
            return;
        }
    }
    // The signal was no fault in a guest's memory, or zero pages cannot be mapped there: when this handler returns, the
    // process ends as it would without a handler. SAFETY: both calls are safe in a handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: `raise` is safe in a handler.
    unsafe { libc::raise(signal) };
}

/// Marks a region as lost, and lays zero pages over it; `false` if that is not possible.
fn replace(row: &Row) -> bool {
    row.lost.store(true, Ordering::Release);
    ANY_LOST.store(true, Ordering::Release);
    let (start, end) = (row.start.load(Ordering::Acquire), row.end.load(Ordering::Acquire));
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: errno belongs to this thread, and is restored for the interrupted code.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let place = std::ptr::without_provenance_mut(start);
    // SAFETY: the region is mapped, is the guest's alone, and only the interrupted thread uses it.
    let mapped = unsafe { libc::mmap(place, end - start, protection, flags, -1, 0) };
    // SAFETY: as above.
    unsafe { *errno = before };
    mapped != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;

    use rustix::fs::{MemfdFlags, memfd_create};
    use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

    use super::*;

    const LENGTH: usize = 64 << 10;

    fn region() -> (File, MmapRegion) {
        let file = File::from(memfd_create("guard", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(u64::try_from(LENGTH).unwrap()).unwrap();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        let region = MmapRegion::from_file(offset, LENGTH).unwrap();
        region.as_volatile_slice().write_slice(&[7; LENGTH], 0).unwrap();
        (file, region)
    }

    #[test]
    fn only_a_truncated_region_is_marked() {
        let ((file, region), (_kept, other)) = (region(), region());
        let guard = Guard::new(region.as_ptr(), LENGTH).unwrap();
        let other_guard = Guard::new(other.as_ptr(), LENGTH).unwrap();
        file.set_len(4096).unwrap();
        let mut bytes = [1; 8192];
        region.as_volatile_slice().read_slice(&mut bytes[..4096], 0).unwrap();
        assert!(bytes[..4096] == [7; 4096] && !guard.is_lost(), "existing memory is readable");
        region.as_volatile_slice().read_slice(&mut bytes, 0).unwrap();
        assert!(guard.is_lost() && is_any_lost() && bytes[4096..] == [0; 4096]);
        region.as_volatile_slice().write_slice(&[9; LENGTH], 0).unwrap();
        assert!(!other_guard.is_lost());
        other.as_volatile_slice().read_slice(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [7; 8192]);
    }

    #[test]
    fn a_row_is_used_again_without_its_mark() {
        for _ in 0..REGIONS_MAX + 1 {
            let lost = Guard::new(std::ptr::without_provenance(1 << 20), 4096).unwrap();
            assert!(!lost.is_lost());
            TABLE[lost.row].lost.store(true, Ordering::Relaxed);
        }
        assert!(find((1 << 20) + 5).is_none());
    }

    #[test]
    fn a_fault_elsewhere_ends_the_process_as_before() {
        const CHILD: &str = "KICKCACHE_TEST_FAULT";
        if std::env::var_os(CHILD).is_some() {
            let ((file, region), (_kept, guarded)) = (region(), region());
            let _guard = Guard::new(guarded.as_ptr(), LENGTH).unwrap();
            file.set_len(0).unwrap();
            let _ = region.as_volatile_slice().read_obj::<u8>(0);
            panic!("the fault was survived");
        }
        let name = "guard::tests::a_fault_elsewhere_ends_the_process_as_before";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
    }
}
