//! The meaning of keys.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::cli::top::board::Look;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    End,
    Look(Look),
}

pub(super) fn wish(key: KeyEvent) -> Option<Wish> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if with_control => Some(Wish::End),
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::End),
        KeyCode::Up | KeyCode::Char('k') => Some(Wish::Look(Look::Before)),
        KeyCode::Down | KeyCode::Char('j') => Some(Wish::Look(Look::After)),
        KeyCode::Enter | KeyCode::Char(' ') => Some(Wish::Look(Look::Closer)),
        KeyCode::Char('s') => Some(Wish::Look(Look::NextOrder)),
        KeyCode::Char('S') => Some(Wish::Look(Look::OrderBefore)),
        KeyCode::Char('r') => Some(Wish::Look(Look::Around)),
        _ => None,
    }
}
