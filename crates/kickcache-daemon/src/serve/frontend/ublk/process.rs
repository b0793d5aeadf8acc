//! The duty of a process below a file system: it must not wait for memory that only its own device could
//! free.

use std::sync::Once;

use rustix::mm::{MlockAllFlags, mlockall};

/// Number 57 of `linux/prctl.h`: the thread takes part in I/O, and allocations of the kernel for it must not wait for I/O.
const PR_SET_PART_OF_IO: libc::c_int = 57;

/// Locks the memory of the process: present pages at once, later ones at their first use. Calls after the
/// first have no effect.
pub(super) fn keep_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(keep);
}

fn keep() {
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    if let Err(error) = mlockall(flags) {
        tracing::warn!(
            event = "memory_not_locked",
            "memory cannot be locked ({error}): a host that is short of memory may wait for this daemon for ever; raise \
             LimitMEMLOCK, or grant CAP_IPC_LOCK"
        );
    }
}

/// Marks this thread and the threads that it starts as part of the I/O path.
pub(super) fn take_part_in_io() {
    // SAFETY: this call changes a property of the thread, and takes no pointers.
    let refused = unsafe { libc::prctl(PR_SET_PART_OF_IO, 1, 0, 0, 0) };
    if refused != 0 {
        tracing::warn!(
            event = "memory_not_locked",
            "the kernel refused to mark this process as a server of a block device ({}): a host that is \
             short of memory may wait for it for ever; grant CAP_SYS_RESOURCE",
            std::io::Error::last_os_error()
        );
    }
}
