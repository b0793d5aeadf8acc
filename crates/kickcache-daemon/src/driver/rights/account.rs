//! The user account of the daemon after its start.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    pub name: String,
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    pub(super) groups: Vec<Gid>,
}

impl Account {
    /// Looks a user up by name or number, and a group likewise; without a named group, the user's own group
    /// counts.
    ///
    /// # Errors
    /// A sentence: there is no such user or group, the user has no group, or the lookup failed.
    pub fn find(user: &str, group: Option<&str>) -> Result<Account, String> {
        let unreadable = |what: &str, name: &str, error: nix::Error| {
            format!("the {what} {name} cannot be looked up: {error}")
        };
        let known = User::from_name(user).map_err(|error| unreadable("user", user, error))?;
        let numbered = number(user).map(Uid::from_raw);
        let known = match (known, numbered) {
            (None, Some(uid)) => User::from_uid(uid).map_err(|error| unreadable("user", user, error))?,
            (known, _) => known,
        };
        let uid = known.as_ref().map(|known| known.uid).or(numbered);
        let uid =
            uid.ok_or_else(|| format!("there is no user {user}; name an existing one, or create it"))?;
        let gid = match group {
            None => known.as_ref().map(|known| known.gid).ok_or_else(|| {
                format!("the user {user} has no group, as it is in no list of users; name one ({user}:GROUP)")
            })?,
            Some(group) => {
                let found = Group::from_name(group).map_err(|error| unreadable("group", group, error))?;
                let gid = found.map(|found| found.gid).or_else(|| number(group).map(Gid::from_raw));
                gid.ok_or_else(|| format!("there is no group {group}; name an existing one, or create it"))?
            }
        };
        let name = known.and_then(|known| CString::new(known.name).ok());
        let groups = name.and_then(|name| getgrouplist(&name, gid).ok()).unwrap_or_else(|| vec![gid]);
        Ok(Account { name: user.into(), uid, gid, groups })
    }

    pub fn is_own(&self) -> bool {
        self.uid == nix::unistd::geteuid() && self.gid == nix::unistd::getegid()
    }

    pub fn is_root(&self) -> bool {
        self.uid.is_root()
    }
}

/// The number of a user or group; the highest one is reserved, as the system uses it for "unchanged".
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX)
}
