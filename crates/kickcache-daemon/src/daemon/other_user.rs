//! Drops the privileges of a daemon that root started.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use rustix::fs::{Access, access};

use crate::config::plan_source::PlanSource;
use crate::devices::state::StateFile;
use crate::driver::device::AccessMode;
use crate::driver::inherited_sockets::inherited_paths;
use crate::driver::rights::account::Account;
use crate::driver::rights::folders::{Purpose, give};
use crate::driver::rights::grant::{Grant, Right};
use crate::driver::rights::separation::{GrantSource, MonitorHandle, separate};
use crate::driver::rights::trusted_path::check_file_of_root;
use crate::plan::ServePlan;
use crate::plan::default_paths::{SYSTEM_CONTROL, runtime_dir};
use crate::whole_path::whole_path;

/// Changes to the user of a plan, if it names another one. The process must have a single thread.
///
/// # Errors
/// A sentence; the process must end then.
pub(crate) fn become_user(plan: &ServePlan, source: &PlanSource) -> anyhow::Result<Option<MonitorHandle>> {
    let Some(wanted) = &plan.user else { return Ok(None) };
    let account = Account::find(&wanted.user, wanted.group.as_deref()).map_err(|why| anyhow!(why))?;
    if account.is_own() {
        return Ok(None);
    }
    if !rustix::process::geteuid().is_root() {
        bail!(
            "only root can go on as the user {wanted}, and the daemon was started by another one; have root start it, or leave `user` out"
        );
    }
    if account.is_root() {
        bail!(
            "`user` is root, with another group, which takes no right away; name another user, or leave it out"
        );
    }
    if let Some(file) = source.path() {
        let safe = check_file_of_root(file);
        safe.map_err(|why| anyhow!("{why}; its devices are opened with the rights of root: make root its only writer, or remove `user`"))?;
    }
    let passed: Vec<PathBuf> = inherited_paths().iter().map(|path| whole_path(path)).collect();
    for folder in socket_folders(plan) {
        give(&folder, Purpose::Sockets, &account, &passed).map_err(|why| anyhow!(why))?;
    }
    if let Some(state) = &plan.state {
        let purpose = Purpose::State { is_record: |name| StateFile::of_name(name).is_some() };
        give(&whole_path(state), purpose, &account, &[]).map_err(|why| anyhow!(why))?;
    }
    let named_in = match source.path() {
        Some(file) => format!("{} (`may-open`)", file.display()),
        None => "a configuration file (`may-open`), or with --may-open at the start".to_owned(),
    };
    let (source, file) = (source.clone(), source.path().map(Path::to_path_buf));
    let granted = grants(plan, file.as_deref());
    let reread = move || {
        let Some(file) = &file else { return Err("no configuration file is given".to_owned()) };
        check_file_of_root(file)?;
        let plan = source.read().map_err(|error| error.to_string())?;
        Ok(grants(&plan, Some(file)))
    };
    let separated = separate(&account, GrantSource { granted, reread: Box::new(reread), named_in })?;
    if let Some(state) = &plan.state {
        check_state(state).with_context(|| {
            format!(
                "the user {wanted} cannot write notes to the state directory {}: name another one (--state), or give the user rights to it \
                 and to the folders above it",
                state.display()
            )
        })?;
    }
    Ok(Some(separated))
}

pub(crate) fn watch(separated: Option<MonitorHandle>) -> anyhow::Result<()> {
    separated.map_or(Ok(()), MonitorHandle::watch).context("cannot start a thread that waits for the monitor")
}

/// The paths that the monitor may open.
fn grants(plan: &ServePlan, config: Option<&Path>) -> Vec<Grant> {
    let grant = |path: &Path, right| Grant { path: whole_path(path), right };
    let caches = plan.caches.iter().map(|cache| grant(&cache.device, Right::Make));
    let origins = plan.caches.iter().flat_map(|cache| &cache.volumes).filter_map(|volume| {
        let right = match volume.access {
            AccessMode::ReadWrite => Right::Write,
            AccessMode::ReadOnly => Right::Read,
        };
        Some(grant(volume.origin.path()?, right))
    });
    let later = plan.may_open.iter().map(|path| grant(path, Right::Make));
    let config = config.map(|config| grant(config, Right::Read));
    caches.chain(origins).chain(later).chain(config).collect()
}

/// The folders of sockets for the daemon's user.
fn socket_folders(plan: &ServePlan) -> BTreeSet<PathBuf> {
    let places: Vec<_> =
        plan.caches.iter().flat_map(|cache| &cache.volumes).map(|volume| volume.served_by()).collect();
    let metrics = plan.metrics.as_ref().map(|metrics| metrics.socket());
    let metrics = metrics.as_ref().and_then(|metrics| metrics.unix_path());
    let sockets = places.iter().flat_map(|places| places.unix_sockets()).chain(metrics);
    let folder = |socket: &Path| whole_path(socket).parent().map(Path::to_path_buf);
    let systems = Path::new(SYSTEM_CONTROL).parent().map(Path::to_path_buf);
    let managers = std::env::var_os("RUNTIME_DIRECTORY").unwrap_or_default();
    let own: Vec<PathBuf> = std::env::split_paths(&managers)
        .filter(|path| path.is_absolute())
        .chain(systems)
        .chain([runtime_dir()])
        .collect();
    let is_own = |folder: &PathBuf| own.iter().any(|own| folder.starts_with(own));
    let control = [Some(plan.control.as_path()), plan.status_socket.as_deref()];
    let control = control.into_iter().flatten().filter_map(folder);
    let control = control.filter(|folder| is_own(folder) || !folder.exists());
    sockets.filter_map(folder).filter(is_own).chain(control).collect()
}

fn check_state(state: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    Ok(access(state, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)?)
}
