//! Client id and secret, read from the environment or from a file that only its owner can read.

use std::env;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use pitwire_tls::open_regular;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

const ID: &str = "PITWIRE_CLIENT_ID";
const SECRET: &str = "PITWIRE_CLIENT_SECRET";
const FILE: &str = "PITWIRE_CREDENTIALS";
const LONGEST_FILE_BYTES: u64 = 64 * 1024;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    pub client_id: String,
    client_secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, secret withheld)", self.client_id)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum CredentialError {
    /// Neither the environment nor a file has credentials.
    Missing {
        file: Option<PathBuf>,
    },
    /// Only one of the two variables is set.
    Half {
        missing: &'static str,
    },
    Unreadable {
        file: PathBuf,
        cause: String,
    },
    Exposed {
        file: PathBuf,
        mode: u32,
    },
    /// Names the line and the key but not the text, which may be the secret.
    Malformed {
        file: PathBuf,
        line: usize,
        what: String,
    },
    Unsigned,
}

/// Parameters of `public/auth` for a login by signature. They do not contain the secret.
#[derive(Serialize)]
pub(crate) struct SignedLogin<'a> {
    grant_type: &'static str,
    client_id: &'a str,
    timestamp: u64,
    nonce: String,
    data: &'static str,
    signature: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

impl SignedLogin<'_> {
    /// Asks for an access token that lasts for `seconds`.
    pub fn lasting(self, seconds: u64) -> Self {
        SignedLogin { scope: Some(format!("expires:{seconds}")), ..self }
    }
}

impl Credentials {
    pub fn new(client_id: impl Into<String>, client_secret: impl Into<String>) -> Self {
        Credentials { client_id: client_id.into(), client_secret: client_secret.into() }
    }

    /// Finds the credentials in this order: the variables `PITWIRE_CLIENT_ID` and
    /// `PITWIRE_CLIENT_SECRET`, the file that
    /// `PITWIRE_CREDENTIALS` names, `pitwire/credentials.toml` in `$XDG_CONFIG_HOME` or
    /// `~/.config`.
    ///
    /// # Errors
    ///
    /// Fails if no credentials are set, if only one of the two variables is set, or if the file is
    /// unreadable or malformed.
    pub fn find() -> Result<Self, CredentialError> {
        let variable = |name| env::var(name).ok().filter(|text| !text.is_empty());
        match (variable(ID), variable(SECRET)) {
            (Some(id), Some(secret)) => return Ok(Credentials::new(id, secret)),
            (Some(_), None) => return Err(CredentialError::Half { missing: SECRET }),
            (None, Some(_)) => return Err(CredentialError::Half { missing: ID }),
            (None, None) => {}
        }
        if let Some(file) = variable(FILE) {
            return Self::read(Path::new(&file));
        }
        let home = || variable("HOME").map(|home| Path::new(&home).join(".config"));
        let file = variable("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
        match file.map(|folder| folder.join("pitwire/credentials.toml")) {
            Some(file) if file.exists() => Self::read(&file),
            file => Err(CredentialError::Missing { file }),
        }
    }

    /// Reads the client id and the secret from a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, other users may read it, or its content is
    /// malformed.
    pub fn read(path: &Path) -> Result<Self, CredentialError> {
        let unreadable =
            |error: std::io::Error| CredentialError::Unreadable { file: path.into(), cause: error.to_string() };
        let file = open_regular(path).map_err(unreadable)?;
        let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(CredentialError::Exposed { file: path.into(), mode });
        }
        let mut text = String::new();
        file.take(LONGEST_FILE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            // The first line of the message names keys. The other lines quote the file, which may
            // contain the secret.
            let what = error.message().lines().next().unwrap_or_default().into();
            CredentialError::Malformed { file: path.into(), line, what }
        })
    }

    /// Signs a login. `clock_offset_ms` is the venue's clock minus the clock of this machine.
    pub(crate) fn signed(&self, clock_offset_ms: i64) -> Result<SignedLogin<'_>, CredentialError> {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| CredentialError::Unsigned)?;
        let here_ms = i64::try_from(elapsed.as_millis()).map_err(|_| CredentialError::Unsigned)?;
        let timestamp = u64::try_from(here_ms + clock_offset_ms).map_err(|_| CredentialError::Unsigned)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| CredentialError::Unsigned)?;
        let nonce = hex::encode(random);
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.client_secret.as_bytes()).map_err(|_| CredentialError::Unsigned)?;
        mac.update(format!("{timestamp}\n{nonce}\n").as_bytes());
        let signature = hex::encode(mac.finalize().into_bytes());
        let client_id = &self.client_id;
        let grant_type = "client_signature";
        Ok(SignedLogin { grant_type, client_id, timestamp, nonce, data: "", signature, scope: None })
    }
}

impl CredentialError {
    pub fn remedy(&self) -> String {
        match self {
            CredentialError::Missing { file } => {
                let file = file.as_ref().map_or("a file".into(), |file| file.display().to_string());
                format!("set {ID} and {SECRET}, or write client_id and client_secret into {file} (chmod 600)")
            }
            CredentialError::Half { .. } => format!("set both {ID} and {SECRET}, or neither"),
            CredentialError::Unreadable { .. } => format!("check {FILE}"),
            CredentialError::Exposed { file, .. } => format!("chmod 600 {}", file.display()),
            CredentialError::Malformed { .. } => {
                "the file holds two lines: client_id = \"…\" and client_secret = \"…\"".into()
            }
            CredentialError::Unsigned => "look at this machine's clock: it must be later than 1970".into(),
        }
    }
}

impl fmt::Display for CredentialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialError::Missing { .. } => write!(f, "no credentials to log in with"),
            CredentialError::Half { missing } => write!(f, "{missing} is not set although its companion is"),
            CredentialError::Unreadable { file, cause } => write!(f, "cannot read {}: {cause}", file.display()),
            CredentialError::Exposed { file, mode } => {
                write!(f, "{} holds a secret and others may read it (mode {mode:03o})", file.display())
            }
            CredentialError::Malformed { file, line, what } => write!(f, "{}, line {line}: {what}", file.display()),
            CredentialError::Unsigned => write!(f, "cannot sign a login on this machine"),
        }
    }
}

impl std::error::Error for CredentialError {}
