//! Volumes that are added and removed while clients are connected.

use kickcache_engine::units::{BlockIndex, BlockKey};

use super::memory::Scene;
use super::*;
use crate::devices::volume_identity::VolumeIdentity;
use crate::plan::removal::{Clients, DirtyFate};
use crate::plan::write_budget::WriteBudget;
use crate::serve::verbs::exchange::ExchangeVerbs;
use crate::serve::verbs::membership::MembershipVerbs;

/// A second volume with the origin of the first one, which is served nowhere.
fn add_volume(scene: &mut Scene) -> usize {
    let volumes = &mut scene.event_loop.core.volumes;
    let first = &volumes[0];
    let info = VolumeInfo { name: "other".into(), id: VolumeId::new(1), ..first.info.clone() };
    let (identity, zeroes) = (VolumeIdentity::of_origin("other", &info.origin), first.zeroes);
    volumes.insert(Volume { info, identity, zeroes, allowed: Vec::new(), _locks: Vec::new() })
}

/// A client that has received the greeting, and has chosen no volume.
fn greeted(scene: &mut Scene) -> UnixStream {
    let mut socket = scene.socket();
    let mut left = vec![0; 18];
    scene.turn_until(|_| {
        let count = socket.read(&mut left).unwrap_or(0);
        left.drain(..count);
        left.is_empty()
    });
    socket
}

/// Whether the connection was ended.
fn is_ended(socket: &mut UnixStream) -> bool {
    matches!(socket.read(&mut [0; 64]), Ok(0))
}

/// After the removal of their volume, their export would be another volume, or none.
#[test]
fn a_hidden_volume_ends_handshakes_at_its_address() {
    let mut scene = Scene::new();
    let other = add_volume(&mut scene);
    let (mut greeted, mut served) = (greeted(&mut scene), scene.connect());
    let hide = |scene: &mut Scene, volume| {
        let EventLoop { core, frontends, .. } = &mut scene.event_loop;
        frontends.hide(core, volume);
    };
    hide(&mut scene, other);
    assert_eq!((is_ended(&mut greeted), scene.connections()), (false, 2), "it is served at another address");
    hide(&mut scene, 0);
    assert_eq!((is_ended(&mut greeted), is_ended(&mut served)), (true, false));
    assert_eq!(scene.connections(), 1, "it gets its replies");
}

/// A client may come after the check of the operation, while blocks are written back.
#[test]
fn a_volume_with_clients_is_not_removed() {
    let mut scene = Scene::new();
    add_volume(&mut scene);
    let _client = scene.connect();
    let refused = scene.event_loop.begin_removal("toy", Clients::Respected).unwrap_err().to_string();
    assert!(refused.contains("1 client is connected"), "{refused}");
    assert!(scene.event_loop.leaving.is_none());
    let _another = scene.connect();
    let id = scene.event_loop.begin_removal("toy", Clients::Disconnected).unwrap();
    assert_eq!((id, scene.event_loop.leaving.is_some()), (VolumeId::new(0), true));
    scene.event_loop.keep_volume();
    let _third = scene.connect();
}

#[test]
fn the_only_volume_is_not_removed() {
    let mut scene = Scene::new();
    let refused = scene.event_loop.begin_removal("toy", Clients::Disconnected).unwrap_err().to_string();
    assert!(refused.contains("the only volume"), "{refused}");
    assert!(scene.event_loop.leaving.is_none());
    assert!(scene.event_loop.begin_removal("another", Clients::Disconnected).is_err());
}

/// The removal waits for these requests.
#[test]
fn requests_above_the_cap_begin_when_their_volume_is_removed() {
    let mut scene = Scene::new();
    add_volume(&mut scene);
    let mut client = scene.capped();
    for cookie in 0..3 {
        client.write_all(&request(0, cookie, 0, 4096)).unwrap();
    }
    scene.turn_until(|scene| scene.event_loop.core.throttles.held_total(VolumeId::new(0)) == 2);
    scene.event_loop.begin_removal("toy", Clients::Disconnected).unwrap();
    let mut left = vec![0; 3 * (16 + 4096)];
    scene.turn_until(|_| {
        let count = client.read(&mut left).unwrap_or(0);
        left.drain(..count);
        left.is_empty()
    });
}

/// A resize stores the superblock with the volume.
#[test]
fn a_volume_that_is_being_removed_is_not_resized() {
    let mut scene = Scene::new();
    add_volume(&mut scene);
    scene.event_loop.begin_removal("toy", Clients::Respected).unwrap();
    let refused = scene.event_loop.begin_resize("toy").map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("being removed"), "{refused}");
    scene.event_loop.keep_volume();
    assert!(scene.event_loop.begin_resize("toy").is_ok());
    let twice = scene.event_loop.begin_resize("toy").map(|_| ()).unwrap_err().to_string();
    assert!(twice.contains("in progress"), "{twice}");
}

/// The next volume may have the number of the removed one.
#[test]
fn a_removed_volume_leaves_no_damage_to_the_next() {
    let mut scene = Scene::new();
    let other = add_volume(&mut scene);
    let key = |volume| BlockKey::new(VolumeId::new(volume), BlockIndex::new(5));
    scene.event_loop.damaged = vec![key(0), key(1)];
    let id = scene.event_loop.begin_removal("other", Clients::Respected).unwrap();
    assert!(scene.event_loop.end_removal(None).is_some());
    assert_eq!((id, scene.event_loop.damaged.as_slice()), (VolumeId::new(1), &[key(0)][..]));
    assert_eq!((scene.event_loop.core.volumes.index_of("other"), add_volume(&mut scene)), (None, other));
    assert!(scene.event_loop.end_removal(None).is_none(), "it has ended");
}

#[test]
fn a_removed_address_serves_its_present_clients_only() {
    let mut scene = Scene::new();
    let mut client = scene.connect();
    let address = scene.address();
    let EventLoop { core, frontends, .. } = &mut scene.event_loop;
    frontends.part_from(core, 1, &address);
    assert_eq!(frontends.addresses().len(), 1, "another volume's");
    frontends.part_from(core, 0, &address);
    assert!(frontends.addresses().is_empty());
    assert!(UnixStream::connect(scene.path()).is_err());
    client.write_all(&request(0, 1, 0, 4096)).unwrap();
    let mut left = vec![0; 16 + 4096];
    scene.turn_until(|_| {
        let count = client.read(&mut left).unwrap_or(0);
        left.drain(..count);
        left.is_empty()
    });
}

/// New requests wait for an exchange of the engine that does not come.
#[test]
fn requests_are_held_back_for_a_limited_time() {
    let mut scene = Scene::new();
    let mut client = scene.connect();
    let begun = scene.event_loop.core.now;
    scene.event_loop.hold_requests(begun);
    client.write_all(&request(0, 1, 0, 4096)).unwrap();
    scene.turn_until(|scene| scene.used() == 4096);
    let after = |millis| begun.plus(Duration::from_millis(millis));
    assert_eq!(scene.event_loop.hold_deadline(), Some(after(5_000)));
    scene.event_loop.release_late_requests(after(4_999));
    assert!(scene.event_loop.core.requests.is_empty() && scene.event_loop.hold_deadline().is_some());
    scene.event_loop.release_late_requests(after(5_000));
    assert_eq!((scene.event_loop.core.requests.len(), scene.event_loop.hold_deadline()), (1, None));
    let late = scene.event_loop.leave_out_if_quiet(after(5_001), DirtyFate::Abandoned);
    let late = late.map(|_| ()).unwrap_err().to_string();
    assert!(late.contains("after 5 s"), "{late}");
    let mut left = vec![0; 16 + 4096];
    scene.turn_until(|_| {
        let count = client.read(&mut left).unwrap_or(0);
        left.drain(..count);
        left.is_empty()
    });
}

#[test]
fn a_changed_write_budget_replaces_the_present_one() {
    let mut scene = Scene::new();
    let now = scene.event_loop.core.now;
    for budget in [Some("64M/day"), Some("1G/day"), None] {
        let budget: Option<WriteBudget> = budget.map(|text| text.parse().unwrap());
        Verbs::set_write_budget(&mut scene.event_loop, now, budget);
        assert_eq!(scene.event_loop.write_budget, budget);
    }
}
