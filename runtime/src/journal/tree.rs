//! The Merkle tree of RFC 6962 over the records, kept as the roots of its full subtrees.

use sha2::{Digest as _, Sha256};

/// A tree that grows by appending. Its size in memory is the logarithm of its leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tree {
    size: u64,
    peaks: Vec<[u8; 32]>,
}

impl Tree {
    /// Appends the leaf with this content.
    pub(super) fn push(&mut self, leaf: &[u8]) {
        let mut hash: [u8; 32] = Sha256::new().chain_update([0]).chain_update(leaf).finalize().into();
        let mut full = self.size;
        while full & 1 == 1
            && let Some(left) = self.peaks.pop()
        {
            hash = node(&left, &hash);
            full >>= 1;
        }
        self.peaks.push(hash);
        self.size += 1;
    }

    /// The root.
    pub(super) fn root(&self) -> [u8; 32] {
        let mut peaks = self.peaks.iter().rev().copied();
        let Some(last) = peaks.next() else {
            return Sha256::digest([]).into();
        };
        peaks.fold(last, |right, left| node(&left, &right))
    }
}

fn node(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stockade_protocol::digest::to_hex;

    /// The definition, word for word: split at the largest power of two below the size.
    fn by_definition(leaves: &[Vec<u8>]) -> [u8; 32] {
        match leaves.len() {
            0 => Sha256::digest([]).into(),
            1 => Sha256::new().chain_update([0]).chain_update(&leaves[0]).finalize().into(),
            size => {
                let split = (size.next_power_of_two()) / 2;
                node(&by_definition(&leaves[..split]), &by_definition(&leaves[split..]))
            }
        }
    }

    #[test]
    fn the_root_is_that_of_the_definition_at_every_size() {
        let leaves: Vec<Vec<u8>> = (0..70_u8).map(|n| vec![n; usize::from(n)]).collect();
        let mut tree = Tree::default();
        for size in 0..leaves.len() {
            assert_eq!(tree.root(), by_definition(&leaves[..size]), "size {size}");
            assert_eq!(tree.size, size as u64);
            tree.push(&leaves[size]);
        }
    }

    #[test]
    fn known_roots() {
        let mut tree = Tree::default();
        assert_eq!(to_hex(&tree.root()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        tree.push(b"");
        assert_eq!(to_hex(&tree.root()), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
        tree.push(b"\0");
        assert_eq!(to_hex(&tree.root()), "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125");
    }
}
