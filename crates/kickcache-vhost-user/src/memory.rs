//! The guest's memory: regions that the front end shares, found by guest address or by the front end's own.

use std::fs::File;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{FileType, fstat};
use vhost::vhost_user::message::{VhostUserMemoryRegion, VhostUserMsgValidator};
use vm_memory::{
    Address, Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MemoryRegionAddress,
};

use super::features::MEMORY_SLOTS_MAX;
use super::guard::Guard;
use super::message::ProtocolError;

/// The memory that requests read and write; a request keeps its memory until it ends.
pub(super) type Memory = Arc<SharedMemory>;

/// Guest memory, and the guards of its regions, which are dropped before the regions are.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    guards: Vec<Arc<Guard>>,
    map: GuestMemoryMmap,
}

impl SharedMemory {
    pub(super) fn is_lost(&self) -> bool {
        self.guards.iter().any(|guard| guard.is_lost())
    }
}

impl Deref for SharedMemory {
    type Target = GuestMemoryMmap;

    fn deref(&self) -> &GuestMemoryMmap {
        &self.map
    }
}

#[derive(Default)]
pub(super) struct GuestRam {
    slots: Vec<Slot>,
    memory: Memory,
}

struct Slot {
    /// The address of the region in the front end.
    user: u64,
    guard: Arc<Guard>,
    region: Arc<GuestRegionMmap>,
}

pub(super) struct SharedRegion {
    pub(super) region: VhostUserMemoryRegion,
    pub(super) fd: OwnedFd,
}

impl GuestRam {
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(super) fn replace(&mut self, regions: Vec<SharedRegion>) -> Result<(), ProtocolError> {
        let mapped: Result<Vec<Slot>, _> =
            regions.into_iter().map(|shared| map(&shared.region, shared.fd)).collect();
        self.adopt(mapped?)
    }

    pub(super) fn add(&mut self, region: &VhostUserMemoryRegion, fd: OwnedFd) -> Result<(), ProtocolError> {
        if self.slots.len() >= MEMORY_SLOTS_MAX {
            return Err(failed("another region: there are too many"));
        }
        let mut slots = self.copies();
        slots.push(map(region, fd)?);
        self.adopt(slots)
    }

    pub(super) fn remove(&mut self, region: &VhostUserMemoryRegion) -> Result<(), ProtocolError> {
        let (guest, user, size) = (region.guest_phys_addr, region.user_addr, region.memory_size);
        let mut slots = self.copies();
        let is_it =
            |slot: &Slot| (slot.region.start_addr().0, slot.user, slot.region.len()) == (guest, user, size);
        let index =
            slots.iter().position(is_it).ok_or_else(|| failed("the region to be removed is not there"))?;
        slots.remove(index);
        self.adopt(slots)
    }

    pub(super) fn clear(&mut self) {
        *self = GuestRam::default();
    }

    /// The guest address of the front end's address `user`; `None` if no region contains it.
    pub(super) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        self.slots.iter().find_map(|slot| {
            let offset = user.checked_sub(slot.user).filter(|offset| *offset < slot.region.len())?;
            Some(GuestAddress(slot.region.start_addr().0 + offset))
        })
    }

    fn copies(&self) -> Vec<Slot> {
        let copy = |slot: &Slot| Slot {
            user: slot.user,
            guard: Arc::clone(&slot.guard),
            region: Arc::clone(&slot.region),
        };
        self.slots.iter().map(copy).collect()
    }

    /// Puts regions in use; if regions overlap, they are refused, and the previous memory stays in use.
    fn adopt(&mut self, slots: Vec<Slot>) -> Result<(), ProtocolError> {
        let mut regions: Vec<_> = slots.iter().map(|slot| Arc::clone(&slot.region)).collect();
        regions.sort_by_key(|region| region.start_addr());
        let guards = slots.iter().map(|slot| Arc::clone(&slot.guard)).collect();
        let map = match regions.is_empty() {
            true => GuestMemoryMmap::new(),
            false => GuestMemoryMmap::from_arc_regions(regions).map_err(failed)?,
        };
        (self.slots, self.memory) = (slots, Arc::new(SharedMemory { guards, map }));
        Ok(())
    }
}

fn map(region: &VhostUserMemoryRegion, fd: OwnedFd) -> Result<Slot, ProtocolError> {
    let (guest, size, user) = (region.guest_phys_addr, region.memory_size, region.user_addr);
    if !VhostUserMsgValidator::is_valid(region) {
        return Err(failed(format!("{size} bytes at {guest:#x} do not fit into 64-bit addresses")));
    }
    let length = usize::try_from(size).map_err(failed)?;
    check_file(&fd, region.mmap_offset, size)?;
    let file = FileOffset::new(File::from(fd), region.mmap_offset);
    let region = GuestRegionMmap::from_range(GuestAddress(guest), length, Some(file)).map_err(failed)?;
    let guard = Guard::new(region.as_ptr(), length).map_err(failed)?;
    Ok(Slot { user, guard: Arc::new(guard), region: Arc::new(region) })
}

/// Refuses a regular file that ends before the memory does: the memory behind its end cannot be accessed.
pub(super) fn check_file(fd: &OwnedFd, offset: u64, size: u64) -> Result<(), ProtocolError> {
    let found = fstat(fd).map_err(failed)?;
    let is_file = FileType::from_raw_mode(found.st_mode).is_file();
    let length = u64::try_from(found.st_size).unwrap_or(0);
    match offset.checked_add(size) {
        Some(end) if !is_file || end <= length => Ok(()),
        Some(_) | None => {
            Err(failed(format!("{size} bytes at {offset} are more than its file of {length} bytes has")))
        }
    }
}

/// Reads guest memory; `None` if it does not exist.
pub(super) fn read(memory: &GuestMemoryMmap, at: GuestAddress, into: &mut [u8]) -> Option<()> {
    match region_of(memory, at, into.len()) {
        Some(Place { region, at }) => region.read_slice(into, at).ok(),
        None => memory.read_slice(into, at).ok(),
    }
}

pub(super) fn write(memory: &GuestMemoryMmap, at: GuestAddress, from: &[u8]) -> Option<()> {
    match region_of(memory, at, from.len()) {
        Some(Place { region, at }) => region.write_slice(from, at).ok(),
        None => memory.write_slice(from, at).ok(),
    }
}

struct Place<'a> {
    region: &'a GuestRegionMmap,
    at: MemoryRegionAddress,
}

/// The region that contains all of these bytes, and their offset in the region; `None` if no single region does.
fn region_of(memory: &GuestMemoryMmap, at: GuestAddress, length: usize) -> Option<Place<'_>> {
    let (region, place) = memory.to_region_addr(at)?;
    let behind = region.len().checked_sub(place.raw_value())?;
    (u64::try_from(length).ok()? <= behind).then_some(Place { region, at: place })
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes it by value")]
fn failed(why: impl ToString) -> ProtocolError {
    ProtocolError::Memory { what: "a region of guest memory", why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_cross_adjacent_regions_but_no_gaps() {
        let ranges = [(GuestAddress(0), 4096), (GuestAddress(4096), 4096), (GuestAddress(16384), 4096)];
        let memory = GuestMemoryMmap::from_ranges(&ranges).unwrap();
        for at in [0, 4000, 4090, 8180, 16384, 20468] {
            write(&memory, GuestAddress(at), b"twelve bytes").unwrap();
            let mut found = [0; 12];
            read(&memory, GuestAddress(at), &mut found).unwrap();
            assert_eq!(&found, b"twelve bytes");
            memory.read_slice(&mut found, GuestAddress(at)).unwrap();
            assert_eq!(&found, b"twelve bytes");
        }
        for at in [8181, 8192, 16383, 20469, u64::MAX] {
            assert_eq!(write(&memory, GuestAddress(at), b"twelve bytes"), None, "{at}");
            assert_eq!(read(&memory, GuestAddress(at), &mut [0; 12]), None, "{at}");
        }
    }
}
