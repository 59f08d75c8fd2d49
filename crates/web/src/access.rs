//! Access control. It admits either the same users as the control socket, or clients with the
//! token.

use std::net::{IpAddr, SocketAddr};

use slipring_cli::Diagnostic;
use slipring_cli::codes::SR0006;

use crate::AccessToken;

/// The access rule of a gateway.
#[derive(Debug, Clone)]
pub(crate) enum WebAccess {
    /// Programs on this machine that connect to this loopback address, and belong to this user, to
    /// root or, under sudo, to the user who called sudo.
    Own(IpAddr),
    /// Clients that have this token.
    Token(AccessToken),
}

impl WebAccess {
    /// Returns the rule for a listening address.
    ///
    /// # Errors
    /// [`Diagnostic`] if other machines can reach the gateway and there is no token.
    pub(crate) fn of(listen: SocketAddr, token: Option<AccessToken>) -> Result<Self, Diagnostic> {
        match token {
            Some(token) => Ok(Self::Token(token)),
            None if listen.ip().to_canonical().is_loopback() => Ok(Self::Own(listen.ip())),
            None => {
                let error = Diagnostic::new(SR0006, format!("{listen} needs a token"));
                Err(error
                    .with_cause("other machines can reach it, and links could be changed by all")
                    .with_help("say --token-file FILE ((umask 077; openssl rand -hex 16 > FILE)), or listen on 127.0.0.1"))
            }
        }
    }

    /// Returns whether a host name, without its port, is a name of this gateway. In DNS rebinding,
    /// a page from another server makes its own name lead to this gateway. Requests of the page
    /// then contain that name. With a token, the name is not checked, because such a page cannot
    /// know the token.
    pub(crate) fn is_named(&self, host: &str) -> bool {
        let Self::Own(ip) = self else { return true };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address: Result<IpAddr, _> = bare.parse();
        match address {
            Ok(named) => named == *ip || named.is_loopback(),
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(listen: &str, token: Option<&str>) -> Result<WebAccess, Diagnostic> {
        WebAccess::of(listen.parse().unwrap(), token.map(|token| AccessToken::new(token).unwrap()))
    }

    #[test]
    fn loopback_needs_no_token_and_every_other_address_does() {
        for listen in ["127.0.0.1:80", "127.8.0.1:1", "[::1]:80", "[::ffff:127.0.0.1]:80"] {
            assert!(matches!(of(listen, None), Ok(WebAccess::Own(_))), "{listen}");
        }
        for listen in ["0.0.0.0:80", "192.0.2.1:80", "[::]:80", "[2001:db8::1]:80"] {
            let error = of(listen, None).unwrap_err().to_text(false);
            assert!(error.contains(&format!("{listen} needs a token")), "{error}");
            assert!(error.contains("--token-file FILE"), "{error}");
            assert!(of(listen, Some("0123456789abcdef")).is_ok());
        }
    }

    #[test]
    fn without_a_token_only_names_of_loopback_are_ours() {
        let own = of("127.0.0.1:8086", None).unwrap();
        for host in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.9"] {
            assert!(own.is_named(host), "{host}");
        }
        for host in ["", "evil.example", "localhost.evil.example", "192.0.2.1", "127.0.0.1.nip.io"]
        {
            assert!(!own.is_named(host), "{host}");
        }
        assert!(of("0.0.0.0:80", Some("0123456789abcdef")).unwrap().is_named("lab.example"));
    }
}
