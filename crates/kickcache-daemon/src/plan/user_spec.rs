//! The user account of a daemon: `NAME` or `NAME:GROUP`.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A user, and a group if one is named.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct UserSpec {
    /// Name or number.
    pub user: String,
    /// Name or number.
    pub group: Option<String>,
}

impl FromStr for UserSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<UserSpec, String> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group.to_owned())),
            None => (text, None),
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains([':', '/', '\0']);
        if is_name(user) && group.as_deref().is_none_or(is_name) {
            return Ok(UserSpec { user: user.into(), group });
        }
        Err(format!(
            "`{text}` is no user; write a name or number, such as kickcache, or both of user and group, such as kickcache:disk"
        ))
    }
}

impl TryFrom<String> for UserSpec {
    type Error = String;

    fn try_from(text: String) -> Result<UserSpec, String> {
        text.parse()
    }
}

impl fmt::Display for UserSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user)?;
        self.group.as_ref().map_or(Ok(()), |group| write!(f, ":{group}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_comes_alone_or_with_a_group() {
        for text in ["kickcache", "kickcache:disk", "65534:65534"] {
            assert_eq!(text.parse::<UserSpec>().unwrap().to_string(), text);
        }
        for text in ["", ":", "a:", ":b", "a:b:c", "/etc"] {
            let refused = text.parse::<UserSpec>().unwrap_err();
            assert!(refused.contains(&format!("`{text}` is no user; write a name")), "{refused}");
        }
    }
}
