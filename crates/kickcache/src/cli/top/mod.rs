//! `kickcache top`: the volumes of a daemon in a terminal, moving.
//!
//! * `board`: what is known, and which part of it is looked at; `volume_line`: a volume of it.
//! * `view`: how it looks; `keys`: what keys do.

mod board;
mod keys;
#[cfg(test)]
mod tests;
mod view;
mod volume_line;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};

use crate::cli::exit::Failure;
use crate::cli::options::{ControlOption, parse_seconds};
use crate::cli::top::board::Board;
use crate::cli::top::keys::{Wish, wish};
use crate::cli::top::view::draw;

const EXAMPLES: &str = "\
Examples:
  kickcache top
  kickcache top --every 1 --control /run/kickcache/fast/control.sock

Keys:
  up, down, j, k   choose a volume         s, S   sort by the next, the previous column
  Enter            its details, and back   r      the other way around
  q, Esc, Ctrl-C   end

It needs a terminal of 80 columns and 24 lines for all columns. Rates are those of the last span; the bars show
the requests a second of the spans before. `status` prints the same once, and more.";

/// Watch the volumes of a daemon: rates, hit ratios, latency, dirty data, in a terminal
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopArgs {
    /// Ask the daemon every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    every: Duration,
    #[command(flatten)]
    control: ControlOption,
}

impl TopArgs {
    pub(crate) fn run(&self, _: &mut dyn Write) -> Result<(), Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(anyhow!("`top` needs a terminal; use `kickcache status --watch` here").into());
        }
        let mut board = Board::default();
        // Who has no daemon hears it in the terminal as it was.
        board.take(Instant::now(), self.control.client().status()?);
        let ended = self.follow(ratatui::try_init()?, &mut board);
        ratatui::try_restore()?;
        Ok(ended?)
    }

    fn follow(&self, mut terminal: DefaultTerminal, board: &mut Board) -> io::Result<()> {
        let mut due = Instant::now() + self.every;
        loop {
            terminal.draw(|frame| draw(frame, board))?;
            let span = due.saturating_duration_since(Instant::now());
            if event::poll(span)?
                && let Event::Key(key) = event::read()?
            {
                match wish(key) {
                    Some(Wish::End) => return Ok(()),
                    Some(Wish::Look(look)) => board.turn(look),
                    None => {}
                }
            }
            if Instant::now() >= due {
                match self.control.client().status() {
                    Ok(report) => board.take(Instant::now(), report),
                    Err(error) => board.miss(error.to_string()),
                }
                due = Instant::now() + self.every;
            }
        }
    }
}
