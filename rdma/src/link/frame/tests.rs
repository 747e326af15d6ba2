//! What the decoder takes, and that it refuses all else.

use super::*;
use crate::sim::Random;

fn head(kind: Kind) -> Head {
    let (source, target) = (NodeId::new(0x0102), NodeId::new(0x0304));
    Head {
        identity: Identity { cluster: 0x1122_3344_5566_7788, epoch: 9, source, target },
        kind,
        sequence: 10,
        transmission: 11,
        acknowledgement: Acknowledgement { seen: 12, next: [13, 14], credit: [15, 16] },
    }
}

fn sealed(head: &Head, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [0; FRAME_LEN_MAX];
    bytes[HEAD_LEN..HEAD_LEN + payload.len()].copy_from_slice(payload);
    let len = seal(&mut bytes, head, payload.len());
    bytes[..len].to_vec()
}

fn prefixed(packet: &[u8]) -> Vec<u8> {
    [&u16::try_from(packet.len()).unwrap().to_le_bytes(), packet].concat()
}

/// A frame with any head and a payload that fits it.
fn any(random: &mut Random) -> (Head, Vec<u8>) {
    let kinds = [Kind::Packets(Class::Request), Kind::Packets(Class::Reply), Kind::Report];
    let kind = kinds[random.index(kinds.len())];
    let mut payload = Vec::new();
    for _ in 0..=random.below(5) {
        let mut packet = vec![0; random.index(800)];
        random.fill(&mut packet);
        payload.extend(prefixed(&packet));
    }
    let mut short = || u16::try_from(random.below(1 << 16)).unwrap();
    let (source, target) = (NodeId::new(short()), NodeId::new(short()));
    let credit = [short(), short()];
    let identity = Identity { cluster: random.draw(), epoch: random.draw(), source, target };
    let next = [random.draw(), random.draw()];
    let acknowledgement = Acknowledgement { seen: random.draw(), next, credit };
    let (sequence, transmission) = (random.draw(), random.draw());
    (Head { identity, kind, sequence, transmission, acknowledgement }, payload)
}

#[test]
fn a_frame_is_laid_out_as_documented() {
    let bytes = sealed(&head(Kind::Packets(Class::Reply)), &[2, 0, b'h', b'i']);
    let expected = [
        &[1, 1, 4, 0][..],
        &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
        &[9, 0, 0, 0, 0, 0, 0, 0],
        &[2, 1, 4, 3, 15, 0, 16, 0],
        &[10, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0],
        &[12, 0, 0, 0, 0, 0, 0, 0],
        &[13, 0, 0, 0, 0, 0, 0, 0, 14, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, b'h', b'i'],
    ];
    assert_eq!(bytes[4..], expected.concat());
    // The check value of CRC32C, and that the frame has it.
    assert_eq!(checksum(b"....123456789"), 0xE306_9283);
    assert_eq!(bytes[..4], checksum(&bytes).to_le_bytes());
}

#[test]
fn what_was_sealed_is_decoded() {
    let mut random = Random::new(1);
    for _ in 0..1000 {
        let (head, payload) = any(&mut random);
        let bytes = sealed(&head, &payload);
        assert_eq!(decode(&bytes), Ok(Frame { head, payload: &payload }));
    }
}

#[test]
fn packets_and_bit_maps_are_found_in_their_payload() {
    let payload = [prefixed(b"one"), prefixed(b""), prefixed(b"three")].concat();
    assert!(packets(&payload).eq([&b"one"[..], b"", b"three"]));
    assert_eq!(bit_maps(&[2, 0, 7, 8, 9]), Some([&[7, 8][..], &[9]]));
    assert_eq!(bit_maps(&[2, 0, 7]), None);
}

#[test]
fn every_beginning_of_a_frame_is_refused() {
    let bytes = sealed(&head(Kind::Report), &[0; 300]);
    for len in 0..bytes.len() {
        let refusal = if len < HEAD_LEN { Refusal::Length } else { Refusal::Checksum };
        assert_eq!(decode(&bytes[..len]), Err(refusal), "{len} bytes");
    }
    let longer = [&bytes[..], &[0; FRAME_LEN_MAX]].concat();
    assert_eq!(decode(&longer), Err(Refusal::Length));
}

#[test]
fn every_bit_that_is_turned_over_is_noticed() {
    let mut bytes = sealed(&head(Kind::Packets(Class::Request)), &prefixed(&[5; 200]));
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode(&bytes), Err(Refusal::Checksum), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(decode(&bytes).is_ok());
}

#[test]
fn a_frame_that_its_sender_made_wrongly_is_refused_with_the_reason() {
    let sound = sealed(&head(Kind::Packets(Class::Request)), &prefixed(b"packet"));
    for (at, byte, refusal) in [
        (4, 3, Refusal::Kind),
        (5, 0, Refusal::Version),
        (6, 9, Refusal::Length),
        (7, 1, Refusal::Length),
        (HEAD_LEN, 5, Refusal::Payload),
        (HEAD_LEN, 7, Refusal::Payload),
        (HEAD_LEN + 1, 1, Refusal::Payload),
    ] {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        reseal(&mut bytes);
        assert_eq!(decode(&bytes), Err(refusal), "byte {at} = {byte}");
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut random = Random::new(2);
    let mut bytes = [0; FRAME_LEN_MAX + 100];
    for _ in 0..10_000 {
        let len = random.index(bytes.len());
        random.fill(&mut bytes[..len]);
        assert!(decode(&bytes[..len]).is_err());
    }
}
