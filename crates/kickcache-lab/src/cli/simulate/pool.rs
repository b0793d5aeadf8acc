//! Runs simulations on several threads, with one progress bar.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

const STYLE: &str = "{bar:40} {percent:>3} %, {elapsed} elapsed, {eta} left  {msg}";
/// Steps of the bar for each unit of a task's weight.
const STEPS: u64 = 1_000;

/// A simulation to be run.
pub(crate) struct Task<T> {
    pub(crate) name: String,
    /// The approximate work of the task, in any unit that all tasks share.
    pub(crate) weight: u64,
    /// The expected length of the task in the unit of the callback.
    pub(crate) nanos: u64,
    /// Runs the task; calls back with its progress.
    #[expect(clippy::type_complexity, reason = "a closure with a callback")]
    pub(crate) work: Box<dyn FnOnce(&mut dyn FnMut(u64)) -> T + Send>,
}

fn bar(tasks: u64) -> ProgressBar {
    let bar = ProgressBar::new(tasks * STEPS);
    if let Ok(style) = ProgressStyle::with_template(STYLE) {
        bar.set_style(style);
    }
    bar
}

/// Runs all tasks; returns the results in the order of the tasks.
pub(crate) fn run_all<T: Send>(tasks: Vec<Task<T>>, threads: usize) -> Vec<T> {
    let count = tasks.len();
    let bar = bar(tasks.iter().map(|task| task.weight).sum());
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| std::cmp::Reverse(tasks[*index].weight));
    let tasks: Vec<Mutex<Option<Task<T>>>> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
    let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(index) = order.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let task = take(&tasks[index]).expect("each task is done once");
            let result = run_one(task, &bar);
            *results[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, count.max(1))).map(|_| scope.spawn(work)).collect();
        drop(workers);
    });
    bar.finish_and_clear();
    results.iter().map(|result| take(result).expect("all tasks are done")).collect()
}

fn take<T>(cell: &Mutex<Option<T>>) -> Option<T> {
    cell.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
}

fn run_one<T>(task: Task<T>, bar: &ProgressBar) -> T {
    let total = task.weight * STEPS;
    let mut shown = 0;
    bar.set_message(task.name);
    let result = (task.work)(&mut |nanos| {
        let step = total.min(
            u64::try_from(u128::from(total) * u128::from(nanos) / u128::from(task.nanos.max(1)))
                .unwrap_or(total),
        );
        bar.inc(step.saturating_sub(shown));
        shown = shown.max(step);
    });
    bar.inc(total - shown);
    result
}

pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=1_024).contains(count));
    count.ok_or_else(|| format!("`{text}` is not a number of threads; write one from 1 to 1024"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_tasks() {
        let task = |number: u64| Task {
            name: number.to_string(),
            weight: number,
            nanos: 10,
            work: Box::new(move |progress: &mut dyn FnMut(u64)| {
                progress(5);
                number
            }),
        };
        assert_eq!(run_all((1..20).map(task).collect(), 3), (1..20).collect::<Vec<u64>>());
    }
}
