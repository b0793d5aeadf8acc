//! An error and its causes as one sentence for a person.

use std::error::Error;

use rustix::io::Errno;

use crate::own_user::own_user;

/// A cause that the text names already is not repeated; a refusal by the system names the user of this
/// process once.
pub fn error_sentence(error: &(dyn Error + 'static)) -> String {
    let causes = anyhow::Chain::new(error).map(ToString::to_string);
    let text = causes.fold(String::new(), |text, cause| match text.as_str() {
        "" => cause,
        said if said.contains(&cause) => text,
        said => format!("{said}: {cause}"),
    });
    with_user(text, &own_user())
}

/// Finds the refusal by the system's text, as many errors are only texts at this point.
fn with_user(text: String, user: &str) -> String {
    let denied = Errno::ACCESS.to_string();
    if !text.contains(&denied) || text.contains(user) {
        return text;
    }
    format!("{text}; {user} has no right to it: grant it, in the folders above too, or use another user")
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context;

    use super::*;

    #[test]
    fn a_lack_of_rights_names_the_user_and_the_remedy() {
        let denied = io::Error::from(Errno::ACCESS);
        let text = format!("the trace /srv/t cannot be read: {denied}");
        let told = with_user(text.clone(), "user eve (1000)");
        assert_eq!(
            told,
            format!(
                "{text}; user eve (1000) has no right to it: grant it, in the folders above too, or use another user"
            )
        );
        assert_eq!(with_user(told.clone(), "user eve (1000)"), told, "once is enough");
        assert_eq!(with_user("no space left".into(), "user eve (1000)"), "no space left");
        let chain: anyhow::Result<()> = Err(denied).context("cannot write c");
        assert!(error_sentence(chain.unwrap_err().as_ref()).contains(&own_user()));
    }
}
