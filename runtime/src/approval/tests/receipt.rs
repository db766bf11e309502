//! A signature covers every byte of a receipt.

use super::*;
use proptest::prelude::*;
use stockade_protocol::receipt::Receipt;

fn receipt() -> Receipt {
    let key = ApproverKey::ephemeral("tester");
    let mut body =
        body(CallId::from_bits([7; 16]), Digest::of("contract"), Digest::of("shown"), Timestamp(1_000), "nonce");
    body.reason = Some("looks right".to_owned());
    key.sign(body).unwrap()
}

#[test]
fn a_signed_receipt_verifies_and_names_its_key() {
    let receipt = receipt();
    assert!(verify_receipt(&receipt));
    assert_eq!(receipt.body.approver, "tester");
    let copied: Receipt = serde_json::from_str(&serde_json::to_string(&receipt).unwrap()).unwrap();
    assert!(verify_receipt(&copied));
}

#[test]
fn a_signature_for_anything_else_is_none_for_a_receipt() {
    let one = receipt();
    let mut other = receipt();
    other.signature.clone_from(&one.signature);
    assert!(!verify_receipt(&other));
    // The same key's signature over the body alone, without what says that it is a receipt.
    use ed25519_dalek::Signer as _;
    let key = ed25519_dalek::SigningKey::from_bytes(&[9; 32]);
    let mut bare = one;
    bare.body.key = stockade_protocol::digest::to_hex(key.verifying_key().as_bytes());
    let bytes = crate::canon::to_bytes(&bare.body).unwrap();
    let sign = |bytes: &[u8]| stockade_protocol::digest::to_hex(&key.sign(bytes).to_bytes());
    bare.signature = sign(&bytes);
    assert!(!verify_receipt(&bare));
    bare.signature = sign(&[b"stockade-receipt-v1\n".as_slice(), &bytes].concat());
    assert!(verify_receipt(&bare), "the control: the same with it");
}

#[test]
fn a_key_that_signs_everything_is_refused() {
    // Points of small order verify what nobody signed.
    for key in ["00".repeat(32), format!("01{}", "00".repeat(31)), format!("ec{}7f", "ff".repeat(30))] {
        let mut forged = receipt();
        forged.body.key = key;
        forged.signature = "00".repeat(64);
        assert!(!verify_receipt(&forged));
        forged.signature = format!("01{}", "00".repeat(63));
        assert!(!verify_receipt(&forged));
    }
}

proptest! {
    #[test]
    fn a_changed_byte_anywhere_fails(at in any::<prop::sample::Index>(), flip in 1_u8..=255) {
        let receipt = receipt();
        let mut bytes = serde_json::to_vec(&receipt).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(changed) = serde_json::from_slice::<Receipt>(&bytes) {
            prop_assert!(changed == receipt || !verify_receipt(&changed), "byte {} became {}", at, bytes[at]);
        }
    }

    #[test]
    fn a_changed_field_fails(field in 0_usize..11, bits in any::<[u8; 32]>(), text in "[a-z0-9]{1,64}", number in any::<u64>()) {
        let receipt = receipt();
        let mut changed = receipt.clone();
        let body = &mut changed.body;
        match field {
            0 => body.call = CallId::from_bits(bits[..16].try_into().unwrap()),
            1 => body.contract = Digest::from_bytes(bits),
            2 => body.shown = Digest::from_bytes(bits),
            3 => body.decision = Decision::Reject,
            4 => body.reason = None,
            5 => body.reason = Some(text),
            6 => body.approver = text,
            7 => body.key = stockade_protocol::digest::to_hex(&bits),
            8 => body.time = Timestamp(number),
            9 => body.expires = Timestamp(number),
            _ => body.nonce = text,
        }
        prop_assert!(changed == receipt || !verify_receipt(&changed));
    }
}
