//! A cache device is left out while its volumes are served.

use crate::engine::Engine;
use crate::time::Instant;

impl Engine {
    /// Puts the cache device out of service by order.
    pub fn leave_out(&mut self, now: Instant) {
        self.state.now = now;
        self.is_stirred = true;
        self.state.take_out_of_service();
        if mutant!(LeftOutUnmarked) {
            self.state.marking.is_known = true;
        }
        self.run_agenda();
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Mode, OriginKind};
    use crate::scene::Scene;
    use crate::stats::{CacheHealth, Record};

    #[test]
    fn a_device_is_marked_before_a_write_bypasses_it() {
        let mut scene = Scene::new(Mode::WriteThrough);
        scene.write(0, 8192).0.unwrap();
        scene.flush().0.unwrap();
        scene.read(0, 4096).0.unwrap();
        scene.engine.leave_out(scene.now);
        let (result, seen) = scene.write(8192, 4096);
        result.unwrap();
        let place = |wanted: &str| seen.iter().position(|line| line == wanted);
        assert!(place("cache log 0, durable") < place("origin write 8192+4096"), "{seen:?}");
        assert_eq!(scene.engine.health(), CacheHealth::OutOfService);
        assert_eq!(scene.engine.record(), Some(Record::OnDevice));
        let (result, seen) = scene.read(0, 4096);
        result.unwrap();
        assert!(seen.iter().any(|line| line.starts_with("origin read")), "{seen:?}");
    }

    #[test]
    fn its_dirty_blocks_are_written_back() {
        let mut scene = Scene::new(Mode::WriteBack);
        scene.write(0, 8192).0.unwrap();
        scene.engine.leave_out(scene.now);
        scene.run();
        scene.pass(crate::time::Duration::from_millis(5_000));
        assert_eq!(scene.engine.status().volumes[0].dirty_blocks, 0);
    }

    /// The copy on the cache device may be unreadable the next time.
    #[test]
    fn its_dirty_blocks_are_durable_at_a_remote_origin() {
        let mut scene = Scene::with_origin(OriginKind::Remote, Mode::WriteBack);
        scene.write(0, 8192).0.unwrap();
        scene.engine.leave_out(scene.now);
        let mut seen = scene.run();
        seen.extend(scene.pass(crate::time::Duration::from_millis(5_000)));
        assert!(seen.contains(&"origin write 0+8192, durable".into()), "{seen:?}");
    }
}
