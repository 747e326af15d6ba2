//! Messages survive their way, and nonsense does no harm.

use super::*;

fn card() -> Card {
    Card {
        host: "boot 1 net:[2]".to_owned(),
        label: "café".to_owned(),
        addresses: vec!["10.0.0.1:4000".parse().unwrap(), "[fd00::1]:4001".parse().unwrap()],
    }
}

fn hello() -> Hello {
    let build = Build::new("pangea 1", [("shared::Sample", 7)]);
    Hello { node: NodeId::new(3), nodes: 4, page_size: 4096, build, card: card().encode() }
}

/// Random numbers of a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

#[test]
fn what_is_said_arrives() {
    assert_eq!(Card::decode(&card().encode()).unwrap(), card());
    assert_eq!(Hello::decode(&hello().encode()).unwrap(), hello());
    let table = [vec![], vec![1, 2, 3], vec![0; SAID_LEN_MAX]];
    let encoded = encode_table(Ok(&table));
    assert!(encoded.len() <= table_len_max(3));
    assert_eq!(decode_table(&encoded, 3).unwrap().unwrap(), table);
    let refusal = decode_table(&encode_table(Err("no\x07")), 3).unwrap().unwrap_err();
    assert_eq!(refusal, "no");
    let (caller, called) = (NodeId::new(2), NodeId::new(1));
    let introduction = encode_introduction(caller, called);
    assert_eq!(decode_introduction(&introduction).unwrap(), (caller, called));
    let (job, path) = (Job::named("job"), PathBuf::from("/tmp/socket"));
    assert_eq!(decode_letter(&encode_letter(&job, &path)), Some((job, path)));
    assert_eq!(decode_letter(&[]), None);
}

#[test]
fn the_longest_card_fits_into_what_a_node_may_say() {
    let text = "x".repeat(1000);
    let addresses = vec!["[fd00::1]:4001".parse().unwrap(); 1000];
    let card = Card { host: text.clone(), label: text, addresses };
    let decoded = Card::decode(&card.encode()).unwrap();
    assert_eq!((decoded.host.len(), decoded.addresses.len()), (TEXT_LEN_MAX, ADDRESSES_MAX));
    assert!(card.encode().len() < SAID_LEN_MAX);
    let names: Vec<String> =
        (0..5000).map(|number| format!("{number}{}", "x".repeat(99))).collect();
    let build = Build::new(&names[0], names.iter().map(|name| (name.as_str(), 1)));
    let hello = Hello { build, card: card.encode(), ..hello() };
    assert!(hello.encode().len() <= HELLO_LEN_MAX);
    assert!(encode_said(Err(&"é".repeat(REASON_CHARS_MAX))).len() <= SAID_LEN_MAX);
}

#[test]
fn half_a_message_is_none() {
    let (card, table) = (card().encode(), encode_table(Ok(&[vec![1], vec![2, 3]])));
    for len in 0..card.len() {
        Card::decode(&card[..len]).unwrap_err();
    }
    Card::decode(&[&card[..], &[0]].concat()).unwrap_err();
    for len in 0..table.len() {
        decode_table(&table[..len], 2).unwrap_err();
    }
    decode_table(&table, 3).unwrap_err();
    for len in 0..40 {
        Hello::decode(&hello().encode()[..len]).unwrap_err();
    }
    decode_introduction(&[0; 3]).unwrap_err();
}

#[test]
fn a_claimed_length_is_not_believed() {
    let claim = [&[YES, 1, 0], &[0xff; 4][..]].concat();
    let error = decode_table(&claim, 1).unwrap_err().to_string();
    assert!(error.contains("0 bytes in the place of 4294967295"), "{error}");
    let mut many = card().encode();
    let at = many.len() - 26;
    many[at - 1..].fill(0xff);
    Card::decode(&many).unwrap_err();
}

#[test]
fn nonsense_does_no_harm() {
    let mut random = Random(3);
    let good = [card().encode(), hello().encode(), encode_table(Ok(&[vec![1], vec![2, 3]]))];
    for _ in 0..20_000 {
        let mut bytes = good[random.below(good.len())].clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = u8::try_from(random.next() & 0xff).unwrap();
        }
        bytes.truncate(random.below(bytes.len() + 1));
        // Whatever comes of it, it is made of what was there.
        if let Ok(card) = Card::decode(&bytes) {
            assert_eq!(Card::decode(&card.encode()).unwrap(), card);
        }
        if let Ok(Ok(table)) = decode_table(&bytes, 2) {
            assert_eq!(encode_table(Ok(&table)), bytes);
        }
        if let Ok(hello) = Hello::decode(&bytes) {
            assert_eq!(hello.encode(), bytes);
        }
        decode_any(&bytes);
    }
}
