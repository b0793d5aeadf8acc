//! fio as the load, over its NBD engine.
pub(crate) fn run(
    _run: &crate::demo::load::Run<'_>,
    _directory: &std::path::Path,
    _watch: crate::demo::load::Watch<'_>,
) -> anyhow::Result<Vec<crate::demo::load::measure::JobMeasure>> {
    anyhow::bail!("later")
}
