//! The content and the format of the daemon's log.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogPlan {
    pub format: LogFormat,
    pub level: LogLevel,
}

/// How the lines of the log look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Sentences, or fields of the journal if that is standard error
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// The lowest level that is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Something failed
    Error,
    /// Something needs attention
    Warn,
    /// Something changed
    #[default]
    Info,
    /// All messages
    Debug,
}
