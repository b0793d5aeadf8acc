//! `kickcache top`: the volumes of a daemon in a terminal, moving.

mod board;
mod keys;
mod poller;
#[cfg(test)]
mod tests;
mod view;
mod volume_line;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use kickcache_command::closed_output::OutputWatch;
use kickcache_command::exit::{Exit, Failure};
use kickcache_command::interrupt::{Interrupt, LOOK_EVERY};
use kickcache_command::options::{ControlOption, parse_interval};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::disable_raw_mode;

use crate::cli::top::board::Board;
use crate::cli::top::keys::{Wish, wish};
use crate::cli::top::poller::Poller;
use crate::cli::top::view::draw;

const EXAMPLES: &str = "\
Examples:
  kickcache top
  kickcache top --every 1 --control /run/kickcache/fast/control.sock

Keys:
  up, down, j, k   choose a volume         s, S   sort by the next, the previous column
  Enter            its details, and back   r      the other way around
  q, Esc, Ctrl-C   end

It needs a terminal of 80 columns and 24 lines for all columns. Rates are for the last span;
the bars show the requests a second of the spans before. `status` prints more, once.";

/// Watch the volumes of a daemon: rates, hit ratios, latency, dirty data, in a terminal
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Interval between requests to the daemon, 0.1 to 86400 seconds
    #[arg(long, value_name = "TIME", default_value = "2", value_parser = parse_interval)]
    every: Duration,
    #[command(flatten)]
    control: ControlOption,
}

impl TopArgs {
    pub(crate) fn run(&self, _: &mut dyn Write) -> Result<(), Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(anyhow!("`top` needs a terminal; use `kickcache status --watch` here").into());
        }
        let interrupt = Interrupt::listen("`top` was ended by a signal")?;
        // If the terminal disappears, crossterm would read for ever.
        let _output = OutputWatch::start(|| Exit::Interrupted.end_process())?;
        interrupt.end_hanging_process(|| drop(disable_raw_mode()))?;
        let mut board = Board::default();
        // The error of a missing daemon is printed before the terminal changes its mode.
        let client = self.control.client();
        board.take(Instant::now(), interrupt.wait_for(move || Ok(client.status()))??);
        let mut terminal = ratatui::try_init()?;
        let ended = self.follow(&mut terminal, &mut board, &interrupt);
        // If the terminal has disappeared, the drop of `Terminal` would fail to print an error there, and
        // abort.
        if terminal.show_cursor().is_err() {
            Exit::Interrupted.end_process();
        }
        ratatui::try_restore()?;
        ended?;
        Ok(interrupt.check()?)
    }

    fn follow(
        &self,
        terminal: &mut DefaultTerminal,
        board: &mut Board,
        interrupt: &Interrupt,
    ) -> io::Result<()> {
        let mut asking = Poller::new(self.every);
        let mut is_stale = true;
        while interrupt.signal().is_none() {
            if std::mem::take(&mut is_stale) {
                terminal.draw(|frame| draw(frame, board))?;
            }
            if event::poll(LOOK_EVERY)? {
                is_stale = true;
                if let Event::Key(key) = event::read()? {
                    match wish(key) {
                        Some(Wish::End) => return Ok(()),
                        Some(Wish::Look(look)) => board.turn(look),
                        None => {}
                    }
                }
            }
            if let Some(answer) = asking.poll(|| self.control.client()) {
                is_stale = true;
                match answer {
                    Ok(report) => board.take(Instant::now(), report),
                    Err(error) => board.miss(error.to_string()),
                }
            }
        }
        Ok(())
    }
}
