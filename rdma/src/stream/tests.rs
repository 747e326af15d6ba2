//! Streams of packets that come in any pieces.

use super::*;
use crate::sim::Random;

/// Keeps what comes: to memory, whole, or not at all, as the number of the request says.
#[derive(Default)]
struct Keeper {
    // What is coming.
    memory: Vec<u8>,
    packets: Vec<(Head, Vec<u8>)>,
}

impl Inbox for Keeper {
    fn open(&mut self, head: &Head) -> Result<Place> {
        assert!(self.memory.is_empty(), "one packet after the other");
        Ok(match head.request % 3 {
            0 => {
                self.memory = vec![0; head.payload_len()];
                let start = NonNull::from(&mut self.memory[..]).cast();
                // SAFETY: the vector is left alone until the packet is closed.
                Place::Memory(unsafe { Target::new(start, head.payload_len()) })
            }
            1 => Place::Whole,
            _ => Place::Nowhere,
        })
    }

    fn close(&mut self, head: &Head, payload: &[u8]) -> Result {
        let came = std::mem::take(&mut self.memory);
        self.packets
            .push((*head, if head.request.is_multiple_of(3) { came } else { payload.to_vec() }));
        Ok(())
    }

    fn end(&mut self, _token: Token, _result: Result<u64>) {}
}

/// The packets of a seed, and the stream that they make.
fn packets(random: &mut Random) -> (Vec<(Head, Vec<u8>)>, Vec<u8>) {
    let (mut packets, mut stream) = (Vec::new(), Vec::new());
    for _ in 0..=random.below(20) {
        let (kind, len_max) =
            [(Kind::Write, 20_000), (Kind::Message, 4097), (Kind::Beat, 1)][random.index(3)];
        let len_max = if random.chance(500_000) { 1.max(len_max / 100) } else { len_max };
        let len = random.index(len_max);
        // What is handed over whole is short.
        let request = if kind == Kind::Write { 2 * random.below(2) } else { 1 };
        let mut payload = vec![0; len];
        random.fill(&mut payload);
        let len = u32::try_from(len).unwrap();
        let head = Head { len, request, offset: random.draw(), ..Head::new(kind) };
        stream.extend_from_slice(&head.encode());
        stream.extend_from_slice(&payload);
        packets.push((head, payload));
    }
    (packets, stream)
}

/// Feeds `stream` in pieces of up to `piece_max` bytes, some of them to where they are to be.
fn assemble(stream: &[u8], piece_max: usize, random: &mut Random) -> Vec<(Head, Vec<u8>)> {
    let (mut assembler, mut keeper) = (Assembler::new(), Keeper::default());
    let mut rest = stream;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(1 + random.index(piece_max)));
        let placed = match assembler.target() {
            Some(mut target) if random.chance(500_000) => target.fill(piece),
            _ => 0,
        };
        if placed > 0 {
            assembler.placed(placed, &mut keeper).unwrap();
        }
        assembler.feed(&piece[placed..], &mut keeper).unwrap();
        rest = after;
    }
    assert!(assembler.open.is_none() && assembler.stash.is_empty(), "nothing is left over");
    keeper.packets
}

#[test]
fn packets_are_the_same_in_whatever_pieces_they_come() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let (packets, stream) = packets(random);
        for piece_max in [1, 7, 33, 1000, 1 << 20] {
            let found = assemble(&stream, piece_max, random);
            assert_eq!(found.len(), packets.len(), "seed {seed}, pieces up to {piece_max}");
            for ((head, payload), (found_head, found_payload)) in packets.iter().zip(&found) {
                assert_eq!(found_head, head, "seed {seed}, pieces up to {piece_max}");
                let is_kept = head.request % 3 != 2;
                let expected: &[u8] = if is_kept { payload } else { &[] };
                assert!(found_payload == expected, "seed {seed}, pieces up to {piece_max}");
            }
        }
    }
}

#[test]
fn nothing_is_handed_over_before_it_is_whole() {
    let mut stream = Head { len: 100, request: 1, ..Head::new(Kind::Message) }.encode().to_vec();
    stream.resize(stream.len() + 100, 7);
    let (mut assembler, mut keeper) = (Assembler::new(), Keeper::default());
    let (last, first) = stream.split_last().unwrap();
    for byte in first {
        assembler.feed(&[*byte], &mut keeper).unwrap();
        assert!(keeper.packets.is_empty());
    }
    assembler.feed(&[*last], &mut keeper).unwrap();
    assert_eq!(keeper.packets.len(), 1);
}

#[test]
fn a_head_that_claims_much_takes_no_memory() {
    let head = Head { len: 4096, request: 1, ..Head::new(Kind::Message) };
    let (mut assembler, mut keeper) = (Assembler::new(), Keeper::default());
    let room = assembler.stash.capacity();
    assembler.feed(&head.encode(), &mut keeper).unwrap();
    let mut claims = head.encode();
    claims[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = Assembler::new().feed(&claims, &mut keeper).unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }));
    assembler.feed(&[1; 4095], &mut keeper).unwrap();
    assert_eq!(assembler.stash.capacity(), room);
}

#[test]
fn a_packet_is_cut_to_what_fits_and_a_word_is_not_cut() {
    for len in [0, 1, 8, 9, 100] {
        let payload: Vec<u8> = (1..=len).collect();
        let head = Head { len: len.into(), ..Head::new(Kind::Bytes) }.encode();
        let whole = [&head[..], &payload].concat();
        // SAFETY: the payload outlives the source, and is only read.
        let source = unsafe { Source::new(NonNull::from(&payload[..]).cast(), payload.len()) };
        for room in 0..=whole.len() {
            let mut first = vec![0; 5];
            let taken = pack(&head, source, 0, &mut first, 5 + room);
            let is_short = payload.len() <= 8 && room < whole.len();
            assert_eq!(taken, if is_short { 0 } else { room }, "{len} bytes where {room} fit");
            assert_eq!(first[5..], whole[..taken]);
            let mut rest = Vec::new();
            assert_eq!(pack(&head, source, taken, &mut rest, 1000), whole.len() - taken);
            assert_eq!(rest, whole[taken..]);
        }
    }
}
