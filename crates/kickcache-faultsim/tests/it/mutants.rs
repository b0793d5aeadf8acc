//! The engine is built a second time with planted flaws. Each flaw must be found by its known seed, or by
//! seeds of the series. `UPDATE_EXPECT=1` writes the known seeds of the present engine and plans.

use std::path::Path;
use std::process::Command;

#[test]
fn every_planted_flaw_is_found() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--locked", "-p", "kickcache-faultsim", "--features", "mutants"]);
    command
        .args(["--bin", "kickcache-mutants", "--", "--known"])
        .arg(folder.join("tests/it/known_seeds.txt"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        command.arg("--update");
    }
    let output = command.current_dir(folder).output().expect("cargo runs: it runs this test");
    let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    eprintln!("{table}");
    assert!(output.status.success(), "{table}\n{errors}");
    assert!(table.lines().filter(|line| line.contains(" found ")).count() >= 100, "{table}");
}
