//! The counters of the server during a run, sampled at intervals, and the run as a report shows it.

use std::time::Duration;

use kickcache_daemon::serve::server::ServerHandle;
use kickcache_engine::stats::{CacheCounters, VolumeCounters};
use kickcache_engine::time;
use kickcache_engine::units::BLOCK_SIZE;
use kickcache_model::result::series::Series;
use kickcache_model::result::{DeviceResult, RunResult};

const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct Look {
    volume: VolumeCounters,
    cache: CacheCounters,
}

pub(crate) struct Timeline<'a> {
    server: &'a ServerHandle,
    volume: &'a str,
    first: Look,
    last: Look,
    last_at: Duration,
    hit_blocks: Series,
    miss_blocks: Series,
}

fn look(server: &ServerHandle, name: &str) -> anyhow::Result<Look> {
    let status = server.status()?;
    let id = status.volumes.iter().find(|volume| volume.name == name).map(|volume| volume.id);
    let found = status.engine.volumes.into_iter().find(|volume| Some(volume.volume) == id);
    let volume = found.ok_or_else(|| anyhow::anyhow!("the server does not know the volume `{name}`"))?;
    Ok(Look { volume: volume.counters, cache: status.engine.counters })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Timeline<'a> {
    pub(crate) fn begin(server: &'a ServerHandle, volume: &'a str) -> anyhow::Result<Timeline<'a>> {
        let first = look(server, volume)?;
        let series = Series::new(time::Duration::from_nanos(nanos(LOOK_EVERY)));
        Ok(Timeline {
            server,
            volume,
            first,
            last: first,
            last_at: Duration::ZERO,
            hit_blocks: series.clone(),
            miss_blocks: series,
        })
    }

    pub(crate) fn go_on(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        if elapsed >= self.last_at + LOOK_EVERY { self.note(elapsed) } else { Ok(()) }
    }

    /// Adds the counts since the last sample to the interval that contains the middle of that time.
    fn note(&mut self, elapsed: Duration) -> anyhow::Result<()> {
        let now = look(self.server, self.volume)?;
        let middle = time::Instant::from_nanos(nanos((self.last_at + elapsed) / 2));
        self.hit_blocks.add(middle, now.volume.hit_blocks - self.last.volume.hit_blocks);
        self.miss_blocks.add(middle, now.volume.miss_blocks - self.last.volume.miss_blocks);
        self.last = now;
        self.last_at = elapsed;
        Ok(())
    }

    /// Samples once more, and fills in the server's counts over the whole run.
    pub(crate) fn finish(mut self, duration: Duration, run: &mut RunResult) -> anyhow::Result<()> {
        self.note(duration.max(self.last_at))?;
        let (old, new) = (&self.first, &self.last);
        run.promoted_bytes = (new.volume.promoted_blocks - old.volume.promoted_blocks) * BLOCK_SIZE;
        run.logged_bytes = (new.volume.logged_blocks - old.volume.logged_blocks) * BLOCK_SIZE;
        run.cache_device = Some(DeviceResult {
            reads: new.cache.reads - old.cache.reads,
            writes: new.cache.writes - old.cache.writes,
            flushes: new.cache.flushes - old.cache.flushes,
            read_bytes: new.cache.read_bytes - old.cache.read_bytes,
            write_bytes: new.cache.write_bytes - old.cache.write_bytes,
            ..DeviceResult::default()
        });
        run.origin_device = Some(DeviceResult {
            reads: new.volume.origin_reads - old.volume.origin_reads,
            writes: new.volume.origin_writes - old.volume.origin_writes,
            flushes: new.volume.origin_flushes - old.volume.origin_flushes,
            read_bytes: new.volume.origin_read_bytes - old.volume.origin_read_bytes,
            write_bytes: new.volume.origin_write_bytes - old.volume.origin_write_bytes,
            ..DeviceResult::default()
        });
        run.hit_blocks = self.hit_blocks;
        run.miss_blocks = self.miss_blocks;
        Ok(())
    }
}
