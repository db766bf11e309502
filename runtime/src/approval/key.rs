//! The approver's key: an Ed25519 seed in a file of its own, readable by its owner alone.

use crate::canon;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use stockade_protocol::digest::{parse_hex, to_hex};
use stockade_protocol::receipt::{Receipt, ReceiptBody};

/// What a receipt's signature covers, before the canonical JSON of its body: no other signature of stockade begins so.
const CONTEXT: &[u8] = b"stockade-receipt-v1\n";

/// The key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It could not be read or made.
    #[error("cannot use the key file {path}: {source}. Check that its directory exists and belongs to you")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others could read it, it is a link, or it belongs to somebody else.
    #[error("the key file {path} {fault}: anybody who read it could approve calls. Make a new key: remove the file")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// It does not hold a key.
    #[error("the key file {path} does not hold 64 hex digits. Remove it to make a new key")]
    Malformed {
        /// The file.
        path: PathBuf,
    },
}

/// A person's approval key.
pub struct ApproverKey {
    name: String,
    key: SigningKey,
}

impl fmt::Debug for ApproverKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApproverKey({}, {})", self.name, self.public())
    }
}

impl ApproverKey {
    /// Reads the key of the person called `name`, or makes it where there is none (mode 0600, never over a file).
    ///
    /// # Errors
    /// When the file cannot be read or made, is open to others, or holds something else.
    pub fn load_or_create(path: &Path, name: impl Into<String>) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        // Without waiting for the other end of what is no file.
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
        let file = match options.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                create(path).map_err(io)?;
                options.open(path).map_err(io)?
            }
            Err(error) => return Err(io(error)),
        };
        let seed = read_seed(&file, path)?;
        Ok(Self { name: name.into(), key: SigningKey::from_bytes(&seed) })
    }

    /// A key that lives only in memory, for the demo's automatic approver and for tests.
    #[must_use]
    pub fn ephemeral(name: impl Into<String>) -> Self {
        let mut seed = [0; 32];
        // As for every id: without random bits there is no way to go on.
        #[allow(clippy::expect_used, reason = "the kernel's random source cannot fail once the machine is up")]
        getrandom::fill(&mut seed).expect("the kernel's random source answers");
        Self { name: name.into(), key: SigningKey::from_bytes(&seed) }
    }

    /// The name receipts are signed under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The public half, 64 hex digits.
    #[must_use]
    pub fn public(&self) -> String {
        to_hex(self.key.verifying_key().as_bytes())
    }

    /// Signs an answer. `approver` and `key` of the body are set to this key's own.
    ///
    /// # Errors
    /// When the body has no canonical form.
    pub fn sign(&self, mut body: ReceiptBody) -> Result<Receipt, canon::CanonError> {
        body.approver.clone_from(&self.name);
        body.key = self.public();
        let signature = self.key.sign(&signed_bytes(&body)?);
        Ok(Receipt { body, signature: to_hex(&signature.to_bytes()) })
    }
}

/// Whether a receipt's signature is that of the key it names, over the body as it stands.
#[must_use]
pub fn verify_receipt(receipt: &Receipt) -> bool {
    let verified = || {
        let key = VerifyingKey::from_bytes(&parse_hex(&receipt.body.key)?).ok()?;
        let signature = Signature::from_bytes(&parse_hex::<64>(&receipt.signature)?);
        key.verify_strict(&signed_bytes(&receipt.body).ok()?, &signature).ok()
    };
    verified().is_some()
}

fn signed_bytes(body: &ReceiptBody) -> Result<Vec<u8>, canon::CanonError> {
    let mut bytes = CONTEXT.to_vec();
    bytes.extend(canon::to_bytes(body)?);
    Ok(bytes)
}

fn create(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| std::io::Error::other(error.to_string()))?;
    // Written whole under another name first: a crash leaves no half a key, and two starts at once agree on one.
    let mut suffix = [0; 8];
    getrandom::fill(&mut suffix).map_err(|error| std::io::Error::other(error.to_string()))?;
    let temporary = path.with_extension(format!("new-{}", to_hex(&suffix)));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(to_hex(&seed).as_bytes()).and_then(|()| file.sync_all());
    // A link, not a rename: one that is there already is never replaced.
    let linked = written.and_then(|()| std::fs::hard_link(&temporary, path));
    std::fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// What the file is, once a program that is just making it has taken its working name away.
fn linked_once(file: &File) -> std::io::Result<std::fs::Metadata> {
    for _ in 0..50 {
        let meta = file.metadata()?;
        if meta.nlink() <= 1 {
            return Ok(meta);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    file.metadata()
}

fn read_seed(file: &File, path: &Path) -> Result<[u8; 32], KeyError> {
    let io = |source| KeyError::Io { path: path.to_owned(), source };
    let exposed = |fault| KeyError::Exposed { path: path.to_owned(), fault };
    let meta = linked_once(file).map_err(io)?;
    if !meta.is_file() {
        return Err(exposed("is not a regular file"));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(exposed("can be read by others"));
    }
    if meta.nlink() != 1 {
        return Err(exposed("has a second name somewhere"));
    }
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return Err(exposed("belongs to somebody else"));
    }
    let mut bytes = Vec::new();
    file.take(128).read_to_end(&mut bytes).map_err(io)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    parse_hex(text.trim_end()).ok_or_else(|| KeyError::Malformed { path: path.to_owned() })
}
