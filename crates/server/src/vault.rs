//! Credentials made at run time, encrypted in the data directory. The key lies elsewhere.
//!
//! Layout      8 bytes "PWVAULT1", 24 bytes nonce, then the encrypted JSON list
//!             (XChaCha20-Poly1305; the first 8 bytes are authenticated). Files are replaced
//!             atomically: temporary file, sync, rename, sync.
//! Holds       1. secrets are on disk only encrypted, and only its owner can read the key file
//!                (mode 0600);
//!             2. a file that cannot be decrypted stops the start, so that no member is locked out
//!                silently;
//!             3. a credential opens only the account whose number and name it was made for;
//!             4. an open account has its credentials, whenever the process is killed. The file is
//!                written before the commit of the command that creates an account, and after the
//!                commit of the command that closes one. A start discards the credentials that then
//!                have no open account;
//!             5. a file that belongs to another journal stops the start.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use pitwire_deribit::{Access, Credential, CredentialStore, Secret};
use pitwire_disk::{DirectoryStorage, open_regular};
use pitwire_engine::{Account, Engine};
use pitwire_model::AccountId;
use serde::{Deserialize, Serialize};
use tracing::warn;
use zeroize::Zeroizing;

use pitwire_failure::Failure;

const MAGIC: &[u8; 8] = b"PWVAULT1";
const NONCE_BYTES: usize = 24;
/// Name of the file in a data directory.
pub const VAULT_FILE: &str = "credentials.sealed";
const OWNER_ONLY: u32 = 0o600;

#[derive(Serialize, Deserialize)]
struct StoredCredential {
    client_id: String,
    secret: Zeroizing<String>,
    account: u32,
    /// Empty if an earlier build wrote the file.
    #[serde(default)]
    account_name: String,
    operator: bool,
    /// The client id was removed and stays removed; the other fields mean nothing.
    #[serde(default)]
    removed: bool,
}

/// The content of a vault.
#[derive(Default)]
pub struct StoredCredentials {
    pub credentials: Vec<Credential>,
    /// Client ids that an operator removed. They are not used again.
    pub removed: BTreeSet<String>,
}

pub struct SealedVault {
    directory: Arc<DirectoryStorage>,
    /// `None` if no option names a file and the process has no home directory. The start succeeds,
    /// and each access to the credentials fails.
    key_file: Option<PathBuf>,
    /// Credentials of the preset. They are not stored unless their secrets change.
    preset: Vec<Credential>,
}

/// Returns `$XDG_CONFIG_HOME/pitwire/vault.key`, or the same under `~/.config`.
pub fn default_key_file() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(config.join("pitwire/vault.key"))
}

impl SealedVault {
    /// Opens the credentials of a data directory and returns those of open accounts. Removes the
    /// others from the file.
    ///
    /// `engine` must have the state of the journal. A new account may have the number of one whose
    /// creation was not completed, so open the credentials before the start adds accounts.
    ///
    /// # Errors
    ///
    /// Returns a failure if the file or its key cannot be read, if the file cannot be decrypted, or
    /// if a credential belongs to another account than the one that `engine` has under its number.
    pub fn open(
        directory: Arc<DirectoryStorage>,
        key_file: Option<PathBuf>,
        engine: &Engine,
    ) -> Result<(SealedVault, StoredCredentials), Failure> {
        let mut vault = SealedVault { directory, key_file, preset: Vec::new() };
        let path = vault.directory.path().join(VAULT_FILE);
        let failed =
            |what: String, remedy: &str| Failure::new(format!("cannot open {}: {what}", path.display())).remedy(remedy);
        let sealed = match vault.directory.read_file(VAULT_FILE) {
            Ok(Some(sealed)) => sealed,
            Ok(None) => return Ok((vault, StoredCredentials::default())),
            Err(error) => return Err(failed(error.to_string(), "make it a regular file that you can read")),
        };
        let key = vault.key().map_err(|error| {
            failed(error.to_string(), "give the key file that it was sealed with by --key-file, readable by you alone")
        })?;
        let opened = unseal(&key, &sealed).ok_or_else(|| {
            failed(
                "it is damaged, or sealed with another key".into(),
                "give its key file by --key-file; if that is lost, remove the file and make new credentials",
            )
        })?;
        let entries: Vec<StoredCredential> = serde_json::from_slice(&opened)
            .map_err(|error| failed(error.to_string(), "start the build that wrote it"))?;
        let mut stored = StoredCredentials::default();
        let mut has_surplus = false;
        for entry in entries {
            if entry.removed {
                stored.removed.insert(entry.client_id);
                continue;
            }
            let remedy = "restore this file and the journal from one backup; or remove the file and make new \
                          credentials";
            match account_of(&entry, engine).map_err(|what| failed(what, remedy))? {
                Some(account) if account.is_closed() => {
                    has_surplus = true;
                    warn!(client_id = entry.client_id, "dropped a credential: its account is closed");
                    stored.removed.insert(entry.client_id);
                }
                Some(account) => stored.credentials.push(Credential {
                    client_id: entry.client_id,
                    secret: Secret::from(entry.secret.as_str().to_owned()),
                    account: AccountId(entry.account),
                    account_name: account.spec.name.clone(),
                    access: Access::of(entry.operator),
                }),
                None => {
                    has_surplus = true;
                    warn!(
                        client_id = entry.client_id,
                        "dropped a credential: the journal has no such account, because its creation was not completed"
                    );
                }
            }
        }
        if has_surplus && let Err(error) = vault.keep(&stored.credentials, &stored.removed) {
            // A full disk must not keep members from cancelling.
            warn!(%error, "dropped credentials stay sealed on disk until the next change or start");
        }
        Ok((vault, stored))
    }

    /// Sets the credentials of the preset, which are not stored unless their secrets change.
    #[must_use]
    pub fn with_preset(self, preset: Vec<Credential>) -> Self {
        SealedVault { preset, ..self }
    }

    fn key_file(&self) -> io::Result<&Path> {
        self.key_file.as_deref().ok_or_else(|| {
            io::Error::other("there is no place for the key of the API secrets: HOME is not set; give --key-file")
        })
    }

    fn key(&self) -> io::Result<Zeroizing<[u8; 32]>> {
        let path = self.key_file()?;
        let mut file =
            open_regular(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let mode = file.metadata()?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let text = format!("{} may be read by others (mode {mode:o}); chmod 600 it", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let mut key = Zeroizing::new([0; 32]);
        file.read_exact(key.as_mut_slice())
            .map_err(|error| io::Error::new(error.kind(), format!("{} is no key: {error}", path.display())))?;
        Ok(key)
    }

    /// Returns the key, and creates it on first use.
    fn key_or_new(&self) -> io::Result<Zeroizing<[u8; 32]>> {
        match self.key() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = &std::path::absolute(self.key_file()?)?;
                let parent = path.parent().unwrap_or(path);
                let existing = parent.ancestors().find(|ancestor| ancestor.is_dir()).unwrap_or(parent).to_owned();
                fs::create_dir_all(parent)?;
                let key = Zeroizing::new(random_bytes::<32>()?);
                let mut file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path)?;
                if let Err(error) = file.write_all(key.as_slice()).and_then(|()| file.sync_all()) {
                    // A part of a key would be refused at every later attempt.
                    let _ = fs::remove_file(path);
                    return Err(error);
                }
                // The key's name must survive a power cut like the file that it opens.
                for directory in parent.ancestors().take_while(|directory| directory.starts_with(&existing)) {
                    fs::File::open(directory)?.sync_all()?;
                }
                Ok(key)
            }
            other => other,
        }
    }
}

impl CredentialStore for SealedVault {
    fn keep(&mut self, credentials: &[Credential], removed: &BTreeSet<String>) -> io::Result<()> {
        let is_preset = |credential: &&Credential| {
            let same = |other: &Credential| {
                other.client_id == credential.client_id && other.secret.reveal() == credential.secret.reveal()
            };
            self.preset.iter().any(same)
        };
        let own = credentials.iter().filter(|credential| !is_preset(credential));
        let gone = removed.iter().map(|client_id| StoredCredential {
            client_id: client_id.clone(),
            secret: Zeroizing::default(),
            account: 0,
            account_name: String::new(),
            operator: false,
            removed: true,
        });
        let entries: Vec<StoredCredential> = own
            .map(|credential| StoredCredential {
                client_id: credential.client_id.clone(),
                secret: Zeroizing::new(credential.secret.reveal().to_owned()),
                account: credential.account.0,
                account_name: credential.account_name.clone(),
                operator: credential.access.is_operator(),
                removed: false,
            })
            .chain(gone)
            .collect();
        let plain = Zeroizing::new(serde_json::to_vec(&entries)?);
        let sealed = seal(&*self.key_or_new()?, &plain)?;
        self.directory.replace_file(VAULT_FILE, &sealed)
    }
}

/// Returns the account that a stored credential opens, or `None` if the journal has neither its
/// number nor its name. A file of an earlier build has numbers only.
fn account_of<'a>(entry: &StoredCredential, engine: &'a Engine) -> Result<Option<&'a Account>, String> {
    let name = &entry.account_name;
    match engine.account(AccountId(entry.account)) {
        Some(found) if name.is_empty() || found.spec.name == *name => Ok(Some(found)),
        None if name.is_empty() || engine.account_named(name).is_none() => Ok(None),
        found => Err(format!(
            "the credential {} belongs to account {} named {name}, and the journal has {} under that number",
            entry.client_id,
            entry.account,
            found.map_or("none", |found| found.spec.name.as_str()),
        )),
    }
}

fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

fn seal(key: &[u8; 32], plain: &[u8]) -> io::Result<Vec<u8>> {
    let nonce = random_bytes::<NONCE_BYTES>()?;
    let cipher = XChaCha20Poly1305::new(Key::from_slice(key));
    let payload = Payload { msg: plain, aad: MAGIC };
    let sealed = cipher.encrypt(XNonce::from_slice(&nonce), payload);
    let sealed = sealed.map_err(|_| io::Error::other("the credentials could not be sealed"))?;
    Ok([MAGIC.as_slice(), nonce.as_slice(), &sealed].concat())
}

fn unseal(key: &[u8; 32], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let rest = sealed.strip_prefix(MAGIC)?;
    let (nonce, sealed) = rest.split_at_checked(NONCE_BYTES)?;
    let cipher = XChaCha20Poly1305::new(Key::from_slice(key));
    let opened = cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: sealed, aad: MAGIC });
    opened.ok().map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_text_opens_only_whole_and_with_its_key() {
        let (key, other) = ([7; 32], [8; 32]);
        let sealed = seal(&key, b"hush").unwrap();
        assert!(!sealed.windows(4).any(|window| window == b"hush"));
        assert_ne!(sealed, seal(&key, b"hush").unwrap(), "a nonce is used once");
        assert_eq!(unseal(&key, &sealed).unwrap().as_slice(), b"hush");
        assert!(unseal(&other, &sealed).is_none());
        for cut in 0..sealed.len() {
            assert!(unseal(&key, &sealed[..cut]).is_none(), "cut at {cut}");
        }
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert!(unseal(&key, &flipped).is_none(), "flipped at {at}");
        }
    }
}
