//! The cache device grows: it gets more, empty segments.
//!
//! First the engine makes space in the journal for the larger checkpoints, and the tables grow, step by step. Then the
//! host makes the new superblock durable, in both copies. After that the engine uses the new segments (G-1): if the
//! superblock did not include a segment, the next recovery would lose its blocks.

use alloc::format;
use alloc::string::ToString;

use crate::error::Error;
use crate::format::superblock::Superblock;
use crate::inflight::growth::{Growth, Stage};
use crate::state::State;
use crate::step::Step;
use crate::task::Task;

/// Begins to prepare for a superblock that is not written yet.
pub(crate) fn begin(state: &mut State, superblock: &Superblock) -> Result<(), Error> {
    let refuse = |what| Err(Error::Growth { what });
    let (geometry, unopened) = (superblock.geometry, superblock.unopened);
    if state.device.is_out_of_service() {
        return refuse("it is out of service; replace it".to_string());
    }
    if let Some(growth) = &state.growth {
        if (growth.geometry, growth.unopened) == (geometry, unopened) {
            return Ok(());
        }
        let size = growth.geometry.device_size;
        return refuse(format!("it is growing to {size} bytes, or was to; grow it to that size first"));
    }
    let is_larger = geometry.segment_count > state.cache.geometry().segment_count;
    assert!(
        is_larger && superblock.uuid == state.device.uuid,
        "only this device can grow, and only to more segments"
    );
    let (blocks, memory) =
        (geometry.capacity_blocks(), "there is not enough memory for its tables".to_string());
    if state.cache.begin_growth(&geometry).and_then(|()| state.retention.begin_growth(blocks)).is_none() {
        return refuse(memory);
    }
    state.device.journal.grow(geometry);
    state.growth = Some(Growth { geometry, unopened, stage: Stage::Room });
    state.agenda.push_back(Task::Checkpoint);
    Ok(())
}

/// Whether a step can be done at once.
pub(crate) fn is_due(state: &State) -> bool {
    state.growth.is_some_and(|growth| match growth.stage {
        Stage::Room => state.device.journal.has_room(),
        Stage::Tables | Stage::Policy => true,
        Stage::Ready => mutant!(GrowthNotAwaited),
    })
}

pub(crate) fn go_on(state: &mut State) {
    let Some(Growth { geometry, stage, .. }) = state.growth else { return };
    let next = match stage {
        Stage::Room if state.device.journal.has_room() => begin_tables(state),
        Stage::Room => {
            state.agenda.push_back(Task::Checkpoint);
            Stage::Room
        }
        Stage::Tables => match state.cache.grow(&geometry) {
            Step::More => Stage::Tables,
            Step::Done => Stage::Policy,
        },
        Stage::Policy => match state.retention.grow() {
            Step::More => Stage::Policy,
            Step::Done => Stage::Ready,
        },
        Stage::Ready if mutant!(GrowthNotAwaited) => return finish(state),
        Stage::Ready => Stage::Ready,
    };
    if let Some(growth) = &mut state.growth {
        growth.stage = next;
    }
}

/// The tables begin to grow.
///
/// # Panics
/// G-2: if the journal has no space for the checkpoints of the larger device.
fn begin_tables(state: &State) -> Stage {
    assert!(state.device.journal.has_room(), "G-2: the journal is full");
    Stage::Tables
}

/// The superblock is durable: the new segments are free.
///
/// # Panics
/// G-1: if the growth is not prepared.
pub(crate) fn finish(state: &mut State) {
    if state.growth.is_none() && mutant!(GrowthNotAwaited) {
        return;
    }
    let Growth { geometry, unopened, stage } = state.growth.take().expect("G-1: no growth is in progress");
    assert!(stage == Stage::Ready, "G-1: the tables have not grown");
    state.cache.use_grown(geometry, unopened);
    state.retention.use_grown(geometry.capacity_blocks());
    state.agenda.push_back(Task::Reclaim);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EngineSettings, Mode};
    use crate::device::DeviceError;
    use crate::engine::Engine;
    use crate::scene::Scene;
    use crate::stats::GrowthPhase;
    use crate::time::Duration;

    fn grown(size: u64) -> Superblock {
        let mut superblock = Superblock::new([1; 16], 16 << 20).unwrap();
        superblock.add_volume("v", 1 << 30, "v").unwrap();
        superblock.grow(size, None).unwrap();
        superblock
    }

    fn prepare(scene: &mut Scene, superblock: &Superblock) {
        scene.engine.grow(scene.now, superblock).unwrap();
        scene.pass(Duration::from_millis(1_000));
        assert_eq!(scene.engine.growth(), GrowthPhase::Prepared);
    }

    #[test]
    fn new_segments_are_used_once_the_superblock_is_durable() {
        let mut scene = Scene::new(Mode::WriteBack);
        let blocks = |range: core::ops::Range<u64>| range.map(|number| number * 65_536);
        blocks(0..100).for_each(|at| scene.write(at, 4096).0.unwrap());
        let before = scene.engine.status();
        let superblock = grown(32 << 20);
        prepare(&mut scene, &superblock);
        blocks(100..200).for_each(|at| scene.write(at, 4096).0.unwrap());
        let status = scene.engine.status();
        assert_eq!((status.segments, status.capacity_blocks), (before.segments, before.capacity_blocks));
        scene.engine.check();
        scene.engine.use_grown(scene.now);
        let status = scene.engine.status();
        assert_eq!(status.segments, u64::from(superblock.geometry.segment_count));
        assert!(status.free_segments > before.free_segments + before.segments / 2);
        assert_eq!(scene.engine.growth(), GrowthPhase::None);
        blocks(200..5_000).for_each(|at| scene.write(at, 4096).0.unwrap());
        scene.engine.check();
        assert_eq!(blocks(0..5_000).find(|at| !scene.is_cached(*at)), None);
    }

    #[test]
    fn an_engine_grows_again_within_its_journal() {
        let mut scene = Scene::new(Mode::WriteBack);
        let most = crate::format::growth::size_max(&grown(32 << 20).geometry);
        for size in [17 << 20, 40 << 20, most] {
            let superblock = grown(size);
            prepare(&mut scene, &superblock);
            scene.engine.use_grown(scene.now);
            assert_eq!(scene.engine.status().segments, u64::from(superblock.geometry.segment_count));
            (0..300).for_each(|number| scene.write((size + number) / 4096 * 4096, 4096).0.unwrap());
            scene.engine.check();
        }
        let opened = Engine::open(scene.now, &grown(most), EngineSettings::default(), &[]).unwrap();
        let memory = [&scene.engine, &opened].map(|engine| engine.status().memory_bytes);
        assert_eq!(memory[0], memory[1], "as if it had had that size from the start");
    }

    #[test]
    fn a_growth_is_refused_during_another_or_out_of_service() {
        let mut scene = Scene::new(Mode::WriteBack);
        let superblock = grown(32 << 20);
        prepare(&mut scene, &superblock);
        scene.engine.grow(scene.now, &superblock).unwrap();
        assert!(scene.engine.grow(scene.now, &grown(33 << 20)).is_err(), "another size");
        let mut scene = Scene::new(Mode::WriteBack);
        scene.fail("cache log", DeviceError::Io);
        (0..20).for_each(|number| scene.write(number * 65_536, 4096).0.unwrap());
        assert!(scene.engine.is_out_of_service());
        assert!(scene.engine.grow(scene.now, &superblock).is_err());
    }

    #[test]
    fn a_growth_waits_for_journal_space() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.engine.state.device.journal.fill();
        scene.hold("cache flush");
        scene.engine.grow(scene.now, &grown(32 << 20)).unwrap();
        scene.pass(Duration::from_millis(1_000));
        scene.engine.handle_timeout(scene.now);
        assert_eq!(scene.engine.growth(), GrowthPhase::Preparing);
        scene.end_held();
        scene.pass(Duration::from_millis(1_000));
        assert_eq!(scene.engine.growth(), GrowthPhase::Prepared);
    }
}
