//! The advice of one run of the command.

use crate::cli::advise::candidate::Candidate;
use crate::cli::advise::need::Need;
use crate::cli::advise::price::Prices;
use crate::cli::advise::recommendation::Recommendation;

pub(super) struct Advice {
    pub(super) load: String,
    pub(super) origin: String,
    pub(super) cache: String,
    pub(super) fast: String,
    pub(super) candidates: Vec<Candidate>,
    pub(super) needs: Vec<Need>,
    pub(super) prices: Prices,
    pub(super) notes: Vec<String>,
    pub(super) recommendation: Recommendation,
}
