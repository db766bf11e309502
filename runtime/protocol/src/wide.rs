//! 64-bit numbers in JSON.
//!
//! Canonical JSON holds integers up to 2^53 - 1 only, because many readers round larger ones. Kernel identities (an
//! inode of a layered file system, say) use all 64 bits, so they are written as decimal text. Used as
//! `#[serde(with = "crate::wide")]`.

use serde::{Deserialize as _, Deserializer, Serializer, de};

/// Writes the number as decimal text.
///
/// # Errors
/// Those of the serializer.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Reads decimal text, in its shortest form only.
///
/// # Errors
/// When the text is not the shortest decimal form of a 64-bit number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<u64>()
        .ok()
        .filter(|number| number.to_string() == text)
        .ok_or_else(|| de::Error::custom(format!("{text:?} is not a 64-bit number in decimal digits")))
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Inode(#[serde(with = "super")] u64);

    #[test]
    fn every_bit_survives_and_only_the_shortest_form_is_read() {
        let json = serde_json::to_string(&Inode(u64::MAX)).unwrap();
        assert_eq!(json, r#""18446744073709551615""#);
        assert_eq!(serde_json::from_str::<Inode>(&json).unwrap(), Inode(u64::MAX));
        for bad in [r#""""#, r#""007""#, r#""+7""#, r#"" 7""#, r#""18446744073709551616""#, "7"] {
            assert!(serde_json::from_str::<Inode>(bad).is_err(), "{bad}");
        }
    }
}
