//! The fio job of the articles that the project answers to, with a chosen size and time.

use std::time::Duration;

/// The number of jobs, each with data of its own.
pub(crate) const JOB_COUNT: u64 = 2;

/// Two jobs with eight reads of 4 KiB in flight each, skewed as zipf 1.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArticleJob {
    pub(crate) size: u64,
    pub(crate) runtime: Duration,
}

impl ArticleJob {
    pub(crate) fn text(&self) -> String {
        let ArticleJob { size, runtime } = self;
        let mut text = format!(
            "[global]\nioengine=libaio\ndirect=1\nrw=randread\nrandom_distribution=zipf:1.2\nnorandommap\nbs=4k\niodepth=8\n\
             size={size}\ntime_based\nruntime={}ms\n",
            runtime.as_millis()
        );
        for job in 0..JOB_COUNT {
            text += &format!("[job]\noffset={}\n", job * size);
        }
        text
    }
}
