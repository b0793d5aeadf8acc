//! An experiment: its simulations, and the columns that show the results.

use crate::published::simulation::{Outcomes, RunOf, Simulation};

pub struct Experiment {
    pub name: String,
    /// The text behind the name in a table.
    pub mark: String,
    pub note: String,
    pub run: Vec<Simulation>,
    pub charts: Option<Charts>,
    /// Its columns, in the order of the table.
    pub columns: Columns,
}

pub type Columns = Box<dyn Fn(&Outcomes) -> Vec<Column>>;

/// The charts of an experiment.
pub struct Charts {
    pub title: String,
    pub runs: Vec<RunOf>,
    pub note: ChartsNote,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChartsNote {
    /// The names of all experiments that share the charts.
    Names,
    Nothing,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Its place in JSON, from the outside in, with dots between; none if it follows from others.
    pub key: Option<String>,
    /// Its heading in a table; none if the column is in JSON only.
    pub heading: Option<&'static str>,
    pub figure: Figure,
}

impl Column {
    pub fn new(heading: &'static str, key: impl Into<String>, figure: Figure) -> Column {
        Column { key: Some(key.into()), heading: Some(heading), figure }
    }

    pub fn derived(heading: &'static str, figure: Figure) -> Column {
        Column { key: None, heading: Some(heading), figure }
    }

    pub fn untold(key: impl Into<String>, figure: Figure) -> Column {
        Column { key: Some(key.into()), heading: None, figure }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Figure {
    Missing,
    Words(&'static str),
    Count(u64),
    /// Operations a second, or MiB a second.
    Rate(f64),
    RateAsked {
        rate: f64,
        asked: f64,
    },
    ByJob(Vec<f64>),
    /// A part, in percent.
    Percent(f64),
    Ratio(f64),
    /// A share of the reads, from 0 to 1; charts show the other reads, in a million.
    PartOfReads(f64),
    Asked(f64),
    AtMost(f64),
}

impl Figure {
    /// `show` of a value; [`Figure::Missing`] if there is none.
    pub fn of<T>(number: Option<T>, show: impl Fn(T) -> Figure) -> Figure {
        number.map_or(Figure::Missing, show)
    }

    /// The number that a chart shows; `None` for a count, and for a figure that is not a single number.
    pub fn charted(&self) -> Option<f64> {
        match *self {
            Figure::Rate(number)
            | Figure::RateAsked { rate: number, .. }
            | Figure::Percent(number)
            | Figure::Ratio(number)
            | Figure::Asked(number)
            | Figure::AtMost(number) => Some(number),
            Figure::PartOfReads(part) => Some((1.0 - part) * 1_000_000.0),
            Figure::Missing | Figure::Words(_) | Figure::Count(_) | Figure::ByJob(_) => None,
        }
    }
}

pub struct Table {
    pub key: &'static str,
    /// The text above the table; none for the first table.
    pub caption: Option<&'static str>,
    pub names: &'static str,
    pub heading: &'static str,
    pub note: &'static str,
    /// The columns that a page shows, in its order; ratios are to the first.
    pub series: &'static [Series],
    pub experiments: Vec<Experiment>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Series {
    pub name: &'static str,
    /// The [`Column::key`] of the column.
    pub key: &'static str,
}
