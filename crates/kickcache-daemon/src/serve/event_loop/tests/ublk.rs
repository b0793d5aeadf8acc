//! A ublk device in the loop, with the test as the kernel: it decides when requests arrive.

use kickcache_engine::time::Duration;

use super::*;
use crate::driver::budget::{Claim, Grant};
use crate::plan::frontends::ublk::id::UblkId;
use crate::serve::frontend::open_places::OpenPlaces;
use crate::serve::frontend::ublk::Ublk;
use crate::serve::frontend::ublk::abi::{
    COMMIT_AND_FETCH, DEL_DEV_ASYNC, END_USER_RECOVERY, FETCH, IoDescription, START_DEV, UPDATE_SIZE,
};
use crate::serve::frontend::ublk::fake_kernel::FakeKernel;
use crate::serve::frontend::ublk::key::UblkKey;
use crate::serve::frontend::ublk::open_ublk::OpenUblk;
use crate::serve::frontend::ublk::place::UblkPlace;
use crate::serve::known_volume::KnownVolume;

const ID: u32 = 63;
const NONE: [u32; 0] = [];
const PLACE: UblkPlace =
    UblkPlace { volume: 0, id: UblkId::Number(ID), queues: 2, depth: 4, block_bytes: 512 };
const READ: u32 = 0;
const WRITE: u32 = 1;
const DISCARD: u32 = 3;
const WRITE_SAME: u32 = 4;

const TURNS_MAX: usize = 1000;
const TURN_TIME_MAX: Duration = Duration::from_millis(10);

struct Scene {
    event_loop: EventLoop<PassThrough>,
    kernel: FakeKernel,
    directory: tempfile::TempDir,
    _control: Sender<Control>,
}

#[derive(PartialEq, Eq, Debug)]
struct Answer {
    queue: u16,
    tag: u16,
    result: i32,
}

impl Scene {
    /// An origin of ones with a block device for its volume; `None` on a machine without io_uring.
    fn new(prepare: impl FnOnce(&FakeKernel, &str)) -> Option<Scene> {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (origin, path) = (directory.path().join("origin"), directory.path().join("s"));
        std::fs::write(&origin, vec![1; 1 << 20]).unwrap();
        let (control, receiver) = mpsc::channel();
        let wakeup = Arc::new(Wakeup::new().unwrap());
        let mut event_loop = toy_loop(&origin, &path, IoEngine::Auto, Limits::default(), receiver, wakeup);
        if event_loop.core.driver.io_engine() == IoEngine::Threads {
            eprintln!("skipped: there is no io_uring here");
            return None;
        }
        let kernel = FakeKernel::new(directory.path());
        prepare(&kernel, &event_loop.core.volumes[0].info.origin);
        event_loop.frontends.ublk =
            Ublk::open_with(kernel.controls(), &[PLACE], &mut event_loop.core).unwrap();
        event_loop.watch_all();
        Some(Scene { event_loop, kernel, directory, _control: control })
    }

    fn ask(&mut self, queue: u16, tag: u16, description: IoDescription) {
        self.kernel.describe(ID, (queue, tag), description);
        let EventLoop { core, frontends, .. } = &mut self.event_loop;
        frontends.on_command(core, WatchKey::Ublk(UblkKey { device: 0, queue, tag }), 0);
    }

    fn answers(&mut self, count: usize) -> Vec<Answer> {
        for _ in 0..TURNS_MAX {
            let found = self.answered();
            if found.len() >= count {
                return found;
            }
            let now = self.event_loop.core.begin_turn();
            let EventLoop { core, frontends, .. } = &mut self.event_loop;
            frontends.take_requests(core);
            self.event_loop.pump(now);
            let EventLoop { core, frontends, .. } = &mut self.event_loop;
            core.driver.wait_beside(now, Some(now.plus(TURN_TIME_MAX)), frontends).unwrap();
        }
        panic!("{count} requests are not answered: {:?}", self.answered());
    }

    fn answered(&self) -> Vec<Answer> {
        let given = self.event_loop.core.driver.given_commands.iter();
        let commits = given.filter(|(_, number, _)| *number == COMMIT_AND_FETCH);
        commits.map(|(_, _, bytes)| answer(bytes)).collect()
    }

    fn memory(&mut self, queue: u16, tag: u16, length: usize) -> &mut [u8] {
        self.event_loop.frontends.ublk.memory_of(UblkKey { device: 0, queue, tag }, length)
    }

    fn wait_for_kernel(&self, number: u32) {
        for _ in 0..TURNS_MAX {
            if self.kernel.known().done.contains(&number) {
                return;
            }
            std::thread::sleep(Span::from_millis(10));
        }
        panic!("{number:#x} is not among {:x?}", self.kernel.known().done);
    }
}

#[expect(clippy::host_endian_bytes, reason = "as the kernel of this host reads them")]
fn answer(bytes: &[u8; 16]) -> Answer {
    let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let result = i32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    Answer { queue: short(0), tag: short(2), result }
}

fn asks(operation_and_flags: u32, first_sector: u64, sector_count: u32) -> IoDescription {
    IoDescription { operation_and_flags, first_sector, sector_count, address: 0 }
}

#[test]
fn all_tags_are_fetched_before_the_device_starts() {
    let Some(scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    let given = &scene.event_loop.core.driver.given_commands;
    let fetched: Vec<_> = given.iter().map(|(key, number, bytes)| (*key, *number, answer(bytes))).collect();
    assert_eq!(fetched.len(), 8);
    for (at, (key, number, said)) in (0..).zip(fetched) {
        let (queue, tag) = (at / 4, at % 4);
        assert_eq!((number, said), (FETCH, Answer { queue, tag, result: 0 }));
        assert_eq!(key, WatchKey::Ublk(UblkKey { device: 0, queue, tag }).bits());
    }
}

#[test]
fn a_read_is_answered_under_its_own_tag() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.ask(1, 3, asks(READ, 8, 16));
    assert_eq!(scene.answers(1), [Answer { queue: 1, tag: 3, result: 8192 }]);
    assert!(scene.memory(1, 3, 8192).iter().all(|byte| *byte == 1));
}

#[test]
fn a_read_of_parts_of_blocks_is_copied() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.ask(0, 0, asks(READ, 9, 3));
    assert_eq!(scene.answers(1), [Answer { queue: 0, tag: 0, result: 1536 }]);
    assert!(scene.memory(0, 0, 1536).iter().all(|byte| *byte == 1));
}

#[test]
fn writes_reach_the_origin_whole_blocks_and_parts() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.memory(0, 1, 4096).fill(7);
    scene.memory(1, 1, 512).fill(8);
    scene.ask(0, 1, asks(WRITE, 8, 8));
    scene.ask(1, 1, asks(WRITE, 17, 1));
    let mut found = scene.answers(2);
    found.sort_by_key(|answer| answer.queue);
    assert_eq!(found, [Answer { queue: 0, tag: 1, result: 4096 }, Answer { queue: 1, tag: 1, result: 512 }]);
    let origin = std::fs::read(scene.directory.path().join("origin")).unwrap();
    assert!(origin[4096..8192].iter().all(|byte| *byte == 7));
    assert!(origin[17 * 512..18 * 512].iter().all(|byte| *byte == 8));
    assert_eq!((origin[8192], origin[18 * 512]), (1, 1));
}

#[test]
fn an_unoffered_operation_is_an_error_without_effect() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.ask(0, 0, asks(WRITE_SAME, 0, 8));
    scene.ask(0, 1, asks(WRITE, (1 << 20) / 512, 1));
    let failed = |tag| Answer { queue: 0, tag, result: -libc::EIO };
    assert_eq!(scene.answers(2), [failed(0), failed(1)]);
    assert_eq!(std::fs::metadata(scene.directory.path().join("origin")).unwrap().len(), 1 << 20);
}

#[test]
fn a_tag_serves_one_request_after_the_other() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    for count in 1..5 {
        scene.ask(0, 2, asks(if count == 3 { DISCARD } else { READ }, 0, 8));
        assert_eq!(scene.answers(count).len(), count);
    }
}

#[test]
fn after_the_end_the_kernel_keeps_its_requests() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.stop_listening(core);
    scene.ask(0, 0, asks(READ, 0, 8));
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.take_requests(core);
    assert!(frontends.is_idle() && core.requests.is_empty());
    assert_eq!(scene.answered(), [], "the next daemon is given it again");
}

#[test]
fn a_command_that_failed_is_given_no_more() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    let before = core.driver.given_commands.len();
    let key = WatchKey::Ublk(UblkKey { device: 0, queue: 0, tag: 0 });
    frontends.on_command(core, key, -libc::ENODEV);
    frontends.take_requests(core);
    assert_eq!(core.driver.given_commands.len(), before, "the device is being deleted");
}

#[test]
fn a_removed_device_is_released_once_it_is_idle() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    scene.ask(1, 3, asks(READ, 0, 8));
    let end = |scene: &mut Scene, queue, tag| {
        let EventLoop { core, frontends, .. } = &mut scene.event_loop;
        frontends.on_command(core, WatchKey::Ublk(UblkKey { device: 0, queue, tag }), -libc::ENODEV);
        frontends.served_at(0, "v")
    };
    for (queue, tag) in (0..7).map(|at| (at / 4, at % 4)) {
        let at = end(&mut scene, queue, tag);
        assert_eq!((at.ublk, at.ublk_removed.as_deref()), (None, Some("/dev/ublkb63")));
    }
    assert_eq!(scene.answers(1), [Answer { queue: 1, tag: 3, result: 4096 }], "what was begun is answered");
    assert_eq!(end(&mut scene, 1, 3).ublk_removed.as_deref(), Some("/dev/ublkb63"));
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.resize(core, 0);
    frontends.stop_listening(core);
    assert!(frontends.is_idle() && core.requests.is_empty());
    let kernel = scene.kernel.clone();
    kernel.known().done.clear();
    drop(scene);
    assert_eq!(kernel.known().done, NONE, "it is none of this daemon's any more");
}

#[test]
fn a_device_is_created_and_removed_exclusively() {
    let Some(scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    let kernel = scene.kernel.clone();
    drop(scene);
    assert!(kernel.known().devices.is_empty() && !kernel.known().is_locked);
    assert_eq!(kernel.known().unlocked, NONE);
}

#[test]
fn a_device_taken_over_by_the_next_daemon_is_kept() {
    let Some(scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    let (kernel, node) = (scene.kernel.clone(), scene.kernel.nodes().join(format!("ublkc{ID}")));
    std::fs::remove_file(&node).unwrap();
    // A character device that a process has open.
    let _open = std::fs::File::open("/dev/null").unwrap();
    std::os::unix::fs::symlink("/dev/null", node).unwrap();
    kernel.known().done.clear();
    drop(scene);
    assert_eq!(kernel.known().done, NONE);
}

#[test]
fn a_device_that_is_taken_over_gets_its_volume_size() {
    let left = |kernel: &FakeKernel, origin: &str| kernel.leave(ID, "toy", origin, 1024);
    let Some(scene) = Scene::new(left) else { return };
    scene.wait_for_kernel(END_USER_RECOVERY);
    scene.wait_for_kernel(UPDATE_SIZE);
    assert_eq!(scene.kernel.known().devices[&ID].parameters.basic.device_sectors, 2048);
    let given = &scene.event_loop.core.driver.given_commands;
    assert_eq!(given.len(), 2, "its one queue has two tags, whatever the settings say");
}

#[test]
fn an_unused_device_ends_with_its_daemon() {
    let Some(scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    let kernel = scene.kernel.clone();
    drop(scene);
    assert!(kernel.known().devices.is_empty());
}

impl Scene {
    fn open(&self, id: UblkId) -> OpenUblk {
        let volume = KnownVolume::of(&self.event_loop.core.volumes[0]);
        let io_engine = self.event_loop.core.driver.io_engine();
        OpenUblk::open(&self.kernel.controls(), &UblkPlace { id, ..PLACE }, &volume, io_engine).unwrap()
    }

    fn part(&mut self) {
        let EventLoop { core, frontends, .. } = &mut self.event_loop;
        frontends.part_from_host(core, 0);
    }

    fn end_tags(&mut self) {
        for (queue, tag) in (0..8).map(|at| (at / 4, at % 4)) {
            let EventLoop { core, frontends, .. } = &mut self.event_loop;
            let key = WatchKey::Ublk(UblkKey { device: 0, queue, tag });
            frontends.on_command(core, key, -libc::ENODEV);
        }
    }
}

#[test]
fn a_volume_becomes_another_device_while_it_is_served() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    scene.part();
    scene.wait_for_kernel(DEL_DEV_ASYNC);
    assert_eq!(scene.event_loop.frontends.served_at(0, "v").ublk, None);
    scene.end_tags();
    assert_eq!(scene.event_loop.frontends.served_at(0, "v").ublk_removed, None, "nobody else removed it");
    assert_eq!(scene.kernel.known().unlocked, NONE);
    scene.kernel.known().done.clear();
    let before = scene.event_loop.core.driver.given_commands.len();
    let open = scene.open(UblkId::Number(5));
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    let mut places = OpenPlaces::default();
    places.ublk = Some(open);
    frontends.join(core, 0, places);
    assert_eq!(core.driver.given_commands.len(), before + 8, "all tags are fetched");
    assert_eq!(
        core.driver.given_commands[before].0,
        WatchKey::Ublk(UblkKey { device: 0, queue: 0, tag: 0 }).bits()
    );
    scene.wait_for_kernel(START_DEV);
    assert_eq!(scene.event_loop.frontends.served_at(0, "v").ublk.as_deref(), Some("/dev/ublkb5"));
    let kernel = scene.kernel.clone();
    drop(scene);
    assert!(kernel.known().devices.is_empty());
}

#[test]
fn requests_of_a_device_that_may_go_are_deferred() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    scene.event_loop.frontends.ublk.hide(0);
    scene.ask(0, 0, asks(READ, 0, 8));
    assert!(scene.event_loop.core.requests.is_empty(), "it is not begun");
    scene.event_loop.frontends.ublk.show(0);
    assert_eq!(scene.answers(1), [Answer { queue: 0, tag: 0, result: 4096 }]);
    scene.event_loop.frontends.ublk.hide(0);
    scene.ask(0, 1, asks(READ, 0, 8));
    scene.part();
    scene.ask(0, 2, asks(READ, 0, 8));
    let failed = |tag| Answer { queue: 0, tag, result: -libc::EIO };
    assert_eq!(
        scene.answers(3)[1..],
        [failed(1), failed(2)],
        "the kernel waits for each of them before it lets go"
    );
}

#[test]
fn a_volume_stays_while_its_device_has_something_in_flight() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.ask(0, 0, asks(READ, 0, 8));
    assert!(!scene.event_loop.frontends.ublk.has_ended(0));
    scene.answers(1);
    assert!(scene.event_loop.frontends.ublk.has_ended(0));
}

#[test]
fn a_device_that_no_loop_takes_goes_again() {
    let Some(scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    let open = scene.open(UblkId::Number(5));
    assert!(scene.kernel.known().devices.contains_key(&5));
    drop(open);
    scene.wait_for_kernel(DEL_DEV_ASYNC);
    assert!(!scene.kernel.known().devices.contains_key(&5));
}

impl Scene {
    /// Takes all memory for payload, so that requests wait for it.
    fn take_memory(&mut self) -> Vec<Grant> {
        let budget = &mut self.event_loop.core.driver.buffers().budget;
        let mut all = Vec::new();
        for bytes in [1 << 20, 4096, 1] {
            let claim = Claim { volume: 0, bytes, held: 0, key: 0 };
            all.extend(std::iter::from_fn(|| budget.reserve(claim)));
            budget.cancel(claim.key);
        }
        all
    }

    fn give_back(&mut self, all: Vec<Grant>) {
        let EventLoop { core, frontends, .. } = &mut self.event_loop;
        all.into_iter().for_each(|grant| core.driver.buffers().budget.release(grant));
        frontends.take_requests(core);
    }

    fn used(&self) -> usize {
        self.event_loop.core.driver.budget().used()
    }

    fn waiting(&self) -> usize {
        self.event_loop.core.driver.budget().waiting_count()
    }
}

#[test]
fn memory_for_a_hidden_device_is_released() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    for round in 0..3 {
        let all = scene.take_memory();
        scene.ask(0, 0, asks(READ, 9, 3));
        assert_eq!(scene.waiting(), 1);
        scene.event_loop.frontends.ublk.hide(0);
        scene.give_back(all);
        assert_eq!((scene.waiting(), scene.used()), (0, 0), "the request does not begin");
        scene.event_loop.frontends.ublk.show(0);
        assert_eq!(scene.answers(round + 1)[round], Answer { queue: 0, tag: 0, result: 1536 });
        assert_eq!(scene.used(), 0);
    }
}

#[test]
fn memory_for_a_removed_device_is_released() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    scene.wait_for_kernel(START_DEV);
    let all = scene.take_memory();
    scene.ask(0, 0, asks(READ, 9, 3));
    scene.part();
    scene.give_back(all);
    assert_eq!(scene.answers(1), [Answer { queue: 0, tag: 0, result: -libc::EIO }]);
    assert_eq!((scene.waiting(), scene.used()), (0, 0));
}

#[test]
fn memory_for_a_request_of_the_kernel_is_released() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    let all = scene.take_memory();
    scene.ask(0, 0, asks(READ, 9, 3));
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.stop_listening(core);
    scene.give_back(all);
    assert_eq!((scene.waiting(), scene.used()), (0, 0));
    assert_eq!(scene.answered(), []);
}

#[test]
fn memory_of_a_request_that_waited_is_released() {
    let Some(mut scene) = Scene::new(|_, _| {}) else { return };
    let all = scene.take_memory();
    scene.memory(1, 2, 512).fill(8);
    scene.ask(1, 2, asks(WRITE, 17, 1));
    scene.ask(0, 1, asks(READ, 9, 3));
    assert_eq!(scene.waiting(), 2);
    scene.give_back(all);
    let mut found = scene.answers(2);
    found.sort_by_key(|answer| answer.queue);
    assert_eq!(found, [Answer { queue: 0, tag: 1, result: 1536 }, Answer { queue: 1, tag: 2, result: 512 }]);
    assert_eq!(scene.used(), 0);
    let origin = std::fs::read(scene.directory.path().join("origin")).unwrap();
    assert!(origin[17 * 512..18 * 512].iter().all(|byte| *byte == 8));
}
