//! Reads the tree as the checks need it: Rust sources split into code and comments, with test code told apart.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// One Rust file.
pub(crate) struct Source {
    /// Path relative to the root, with `/`.
    pub(crate) path: String,
    /// As it is on disk.
    pub(crate) text: String,
    /// The code: comments and the insides of literals are blanks, lines and offsets stay.
    pub(crate) code: String,
    /// The comments: everything else is blanks.
    pub(crate) comments: String,
    /// Whether the whole file is test code.
    pub(crate) test: bool,
}

impl Source {
    /// The code without what is only compiled for tests.
    pub(crate) fn product(&self) -> String {
        if self.test { blank(&self.code) } else { without_tests(&self.code).0 }
    }

    /// `path:line` of an offset.
    pub(crate) fn at(&self, offset: usize) -> String {
        format!("{}:{}", self.path, line_of(&self.text, offset))
    }
}

/// The line, from 1, of an offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// Every file of the repository but build output, as paths relative to the root.
pub(crate) fn files() -> Vec<String> {
    let mut found = Vec::new();
    walk(root(), &mut found);
    found.sort();
    assert!(found.len() > 50, "the tree was not found at {}", root().display());
    found
}

fn walk(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && !matches!(name.as_str(), "target" | ".git" | "stockade-demo") {
            walk(&entry.path(), found);
        } else if kind.is_file() && name != ".git" {
            found.push(entry.path().strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// The text of a file, or nothing when it is not text.
pub(crate) fn text(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// Every Rust file of the repository.
pub(crate) fn sources() -> Vec<Source> {
    let paths: Vec<String> = files().into_iter().filter(|path| path.ends_with(".rs")).collect();
    let mut only_for_tests = BTreeSet::new();
    let mut found = Vec::new();
    for path in paths {
        let text = text(&path).unwrap();
        let (code, comments) = split(&text);
        for module in without_tests(&code).1 {
            only_for_tests.insert(module_directory(&path).join(module).to_str().unwrap().to_owned());
        }
        found.push(Source { path, text, code, comments, test: false });
    }
    for source in &mut found {
        let parts: Vec<&str> = source.path.split('/').collect();
        let by_place = parts.iter().any(|part| matches!(*part, "tests" | "benches" | "tests.rs"));
        let by_name = only_for_tests.iter().any(|module| {
            source.path == format!("{module}.rs")
                || source.path.strip_prefix(module).is_some_and(|p| p.starts_with('/'))
        });
        source.test = by_place || by_name;
    }
    assert!(found.iter().any(|source| source.test) && found.iter().any(|source| !source.test));
    found
}

/// The directory in which a file's own modules lie.
fn module_directory(path: &str) -> PathBuf {
    let path = Path::new(path);
    let stem = path.file_stem().unwrap().to_str().unwrap();
    let parent = path.parent().unwrap();
    if matches!(stem, "mod" | "lib" | "main") { parent.to_owned() } else { parent.join(stem) }
}

/// The same text with everything but line ends blank.
fn blank(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// Splits a source into code and comments, each as long as the source.
pub(crate) fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut code = vec![b' '; bytes.len()];
    let mut comments = code.clone();
    let get = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mut at = 0;
    while at < bytes.len() {
        let end = match (get(at), get(at + 1)) {
            (b'/', b'/') => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
                comments[at..end].copy_from_slice(&bytes[at..end]);
                end
            }
            (b'/', b'*') => {
                let end = block_comment(bytes, at);
                comments[at..end].copy_from_slice(&bytes[at..end]);
                end
            }
            (b'r', b'"' | b'#') if !in_word(bytes, at) && raw_string(bytes, at).is_some() => {
                raw_string(bytes, at).unwrap_or(at + 1)
            }
            (b'"', _) => quoted(bytes, at, b'"'),
            // A character literal, unless it is a lifetime.
            (b'\'', next) if next == b'\\' || character_ends(text, at).is_some() => {
                if next == b'\\' {
                    quoted(bytes, at, b'\'')
                } else {
                    character_ends(text, at).unwrap_or(at + 1)
                }
            }
            (byte, _) => {
                code[at] = byte;
                at + 1
            }
        };
        if matches!(get(at), b'"' | b'\'' | b'r') && end > at + 1 {
            code[at] = b'"';
            code[end - 1] = b'"';
        }
        at = end;
    }
    for (place, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        code[place] = *byte;
        comments[place] = *byte;
    }
    (String::from_utf8_lossy(&code).into_owned(), String::from_utf8_lossy(&comments).into_owned())
}

fn in_word(bytes: &[u8], at: usize) -> bool {
    // `br"` and `cr"` are literals too; any other letter before makes a word.
    let before = |back: usize| at.checked_sub(back).and_then(|place| bytes.get(place)).copied().unwrap_or(b' ');
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if matches!(before(1), b'b' | b'c') { word(before(2)) } else { word(before(1)) }
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (depth, at) = (depth + 1, at + 2),
            Some(b"*/") => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(start + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let body = start + hashes + 2;
    bytes[body..].windows(close.len()).position(|window| window == close).map(|length| body + length + close.len())
}

fn quoted(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn character_ends(text: &str, start: usize) -> Option<usize> {
    let character = text.get(start + 1..)?.chars().next()?;
    let end = start + 1 + character.len_utf8();
    (text.as_bytes().get(end) == Some(&b'\'')).then_some(end + 1)
}

/// Blanks every item under `#[cfg(test)]`; also gives the names of modules in files of their own that were under one.
pub(crate) fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let mut left = code.as_bytes().to_vec();
    let mut modules = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find(MARK) {
        let start = from + found;
        let mut end = start + MARK.len();
        let mut depth = 0_u32;
        for byte in code[end..].bytes() {
            end += 1;
            match byte {
                b'{' | b'[' | b'(' => depth += 1,
                b'}' | b']' | b')' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 && byte == b'}' {
                        break;
                    }
                }
                b';' if depth == 0 => break,
                _ => {}
            }
        }
        let item = &code[start + MARK.len()..end];
        if let Some(name) = item.trim().strip_suffix(';').and_then(|item| item.split_once("mod ")).map(|(_, name)| name)
        {
            modules.push(name.trim().to_owned());
        }
        for byte in left.get_mut(start..end).unwrap().iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
        from = end;
    }
    (String::from_utf8(left).unwrap(), modules)
}
