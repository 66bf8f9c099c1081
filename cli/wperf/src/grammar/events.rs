//! Event lists: names, `rHEX`, numbers; `{a,b}` keeps its members together; `/class/` chooses the device.

use std::fmt;

/// The device an event belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The PMU of a core.
    #[default]
    Core,
    /// The DynamIQ Shared Unit.
    Dsu,
    /// DMC-620, events of the full clock.
    DmcClk,
    /// DMC-620, events of the halved clock.
    DmcClkdiv2,
    /// The CoreSight PMU of that number.
    CsPmu(u32),
}

impl Class {
    /// The word between slashes of a CoreSight PMU, before its number.
    const CS_PMU: &str = "cspmu_";

    /// The word for it, as it stands between slashes.
    #[must_use]
    pub fn word(self) -> String {
        match self {
            Self::Core => "core".to_owned(),
            Self::Dsu => "dsu".to_owned(),
            Self::DmcClk => "dmc_clk".to_owned(),
            Self::DmcClkdiv2 => "dmc_clkdiv2".to_owned(),
            Self::CsPmu(number) => format!("{}{number}", Self::CS_PMU),
        }
    }

    /// The class of a word.
    #[must_use]
    pub fn by_word(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let named = [Self::Core, Self::Dsu, Self::DmcClk, Self::DmcClkdiv2];
        let number = word.strip_prefix(Self::CS_PMU);
        let numbered = number.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        named
            .into_iter()
            .find(|class| class.word() == word)
            .or_else(|| numbered?.parse().ok().map(Self::CsPmu))
    }

    /// Takes a prefix `/word/` off a name.
    ///
    /// Errors: [`EventListError::UnknownClass`].
    pub fn split_prefix(text: &str) -> Result<(Self, &str), EventListError> {
        let Some((word, name)) = text.strip_prefix('/').and_then(|t| t.split_once('/')) else {
            return Ok((Self::Core, text));
        };
        Self::by_word(word)
            .map(|class| (class, name))
            .ok_or_else(|| EventListError::UnknownClass(word.to_owned()))
    }
}

/// How an event was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// By name, as typed.
    Name(String),
    /// By code.
    Code(u32),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Code(code) => write!(f, "r{code:x}"),
        }
    }
}

/// One event as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The device.
    pub class: Class,
    /// Which of its events.
    pub selector: Selector,
}

/// One item of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event on its own.
    Loose(EventSpec),
    /// Events of one class that are to be counted at the same time; at least two.
    Group(Vec<EventSpec>),
}

/// Why a text is no event list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventListError {
    /// Two commas, or nothing between braces.
    #[error("event list '{0}' has an empty item")]
    EmptyItem(String),
    /// `{a,{b}}`.
    #[error("event list '{0}' has a group within a group")]
    NestedGroup(String),
    /// A brace without its partner, or text next to one.
    #[error("event list '{0}' has a brace out of place")]
    StrayBrace(String),
    /// `/word/` that is no class.
    #[error(
        "unknown event class: /{0}/, use one of: /core/, /dsu/, /dmc_clk/, /dmc_clkdiv2/, /cspmu_N/"
    )]
    UnknownClass(String),
    /// `{/dsu/a,b}`.
    #[error("group '{{{0}}}' mixes events of several classes")]
    MixedGroup(String),
    /// A number that is not a code.
    #[error("event index: {0} is invalid!")]
    InvalidCode(String),
}

/// Parses the argument of `-e`.
///
/// Errors: see [`EventListError`]. Whether a name is known is not looked at here.
pub fn parse(list: &str) -> Result<Vec<Item>, EventListError> {
    let mut items = Vec::new();
    let mut rest = list;
    loop {
        let (item, after) = match rest.strip_prefix('{') {
            Some(inner) => group(list, inner)?,
            None => loose(list, rest)?,
        };
        items.push(item);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(items),
            None => return Err(EventListError::StrayBrace(list.to_owned())),
        }
    }
}

fn group<'a>(list: &str, inner: &'a str) -> Result<(Item, &'a str), EventListError> {
    let Some((members, after)) = inner.split_once('}') else {
        return Err(EventListError::StrayBrace(list.to_owned()));
    };
    if members.contains('{') {
        return Err(EventListError::NestedGroup(list.to_owned()));
    }
    let mut specs = members
        .split(',')
        .map(|text| event(list, text))
        .collect::<Result<Vec<_>, _>>()?;
    let class = specs.first().map(|spec| spec.class);
    if specs.iter().any(|spec| Some(spec.class) != class) {
        return Err(EventListError::MixedGroup(members.to_owned()));
    }
    // Braces around one event mean nothing.
    let item = if specs.len() == 1 {
        Item::Loose(specs.remove(0))
    } else {
        Item::Group(specs)
    };
    Ok((item, after))
}

fn loose<'a>(list: &str, rest: &'a str) -> Result<(Item, &'a str), EventListError> {
    let end = rest.find(',').unwrap_or(rest.len());
    let (text, after) = rest.split_at(end);
    if text.contains(['{', '}']) {
        return Err(EventListError::StrayBrace(list.to_owned()));
    }
    Ok((Item::Loose(event(list, text)?), after))
}

fn event(list: &str, text: &str) -> Result<EventSpec, EventListError> {
    let (class, name) = Class::split_prefix(text)?;
    if name.is_empty() {
        return Err(EventListError::EmptyItem(list.to_owned()));
    }
    let selector = match code(name) {
        Some(code) => Selector::Code(code.ok_or_else(|| EventListError::InvalidCode(name.into()))?),
        None => Selector::Name(name.to_owned()),
    };
    Ok(EventSpec { class, selector })
}

/// `None`: a name. `Some(None)`: meant as a number, but is none.
fn code(text: &str) -> Option<Option<u32>> {
    let raw = text.strip_prefix(['r', 'R']);
    if let Some(hex) = raw.filter(|h| !h.is_empty() && h.bytes().all(|b| b.is_ascii_hexdigit())) {
        return Some(u32::from_str_radix(hex, 16).ok());
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    Some(match hex {
        Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    })
}

/// Parses a bare hexadecimal code, with or without `0x`.
pub(super) fn hex_code(text: &str) -> Option<u32> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .unwrap_or(text);
    let all_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| all_hex)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn core(selector: Selector) -> EventSpec {
        EventSpec {
            class: Class::Core,
            selector,
        }
    }

    fn name(text: &str) -> EventSpec {
        core(Selector::Name(text.into()))
    }

    #[test]
    fn names_raw_codes_numbers_and_groups_mix() {
        let items = parse("inst_spec,{r1B,0x10,vfp_spec},17,/DSU/l3d_cache,{ld_spec}").unwrap();
        assert_eq!(
            items,
            [
                Item::Loose(name("inst_spec")),
                Item::Group(vec![
                    core(Selector::Code(0x1B)),
                    core(Selector::Code(0x10)),
                    name("vfp_spec")
                ]),
                Item::Loose(core(Selector::Code(17))),
                Item::Loose(EventSpec {
                    class: Class::Dsu,
                    selector: Selector::Name("l3d_cache".into())
                }),
                Item::Loose(name("ld_spec")),
            ]
        );
    }

    #[test]
    fn coresight_pmus_are_told_apart_by_number() {
        let of = |text| Class::split_prefix(text).unwrap();
        assert_eq!(of("/CSPMU_12/r1F"), (Class::CsPmu(12), "r1F"));
        assert_eq!(Class::CsPmu(12).word(), "cspmu_12");
        assert!(Class::split_prefix("/cspmu_+1/a").is_err());
    }

    #[test]
    fn a_name_that_begins_with_r_is_still_a_name() {
        assert_eq!(
            parse("ref-cycles").unwrap(),
            [Item::Loose(name("ref-cycles"))]
        );
        assert_eq!(parse("r").unwrap(), [Item::Loose(name("r"))]);
    }

    #[test]
    fn each_kind_of_mistake_has_its_own_message() {
        let kind = |text| parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(kind("a,,b"), @"event list 'a,,b' has an empty item");
        insta::assert_snapshot!(kind(""), @"event list '' has an empty item");
        insta::assert_snapshot!(kind("{a,{b}}"), @"event list '{a,{b}}' has a group within a group");
        insta::assert_snapshot!(kind("{a,b"), @"event list '{a,b' has a brace out of place");
        insta::assert_snapshot!(kind("{a}b"), @"event list '{a}b' has a brace out of place");
        insta::assert_snapshot!(kind("a}"), @"event list 'a}' has a brace out of place");
        insta::assert_snapshot!(kind("/l4/a"), @"unknown event class: /l4/, use one of: /core/, /dsu/, /dmc_clk/, /dmc_clkdiv2/, /cspmu_N/");
        insta::assert_snapshot!(kind("/cspmu_/a"), @"unknown event class: /cspmu_/, use one of: /core/, /dsu/, /dmc_clk/, /dmc_clkdiv2/, /cspmu_N/");
        insta::assert_snapshot!(kind("{/dsu/a,b}"), @"group '{/dsu/a,b}' mixes events of several classes");
        insta::assert_snapshot!(kind("r100000000"), @"event index: r100000000 is invalid!");
        insta::assert_snapshot!(kind("0x"), @"event index: 0x is invalid!");
        insta::assert_snapshot!(kind("12x"), @"event index: 12x is invalid!");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[{},/a-r0-9x]*|.*") {
            let _ = parse(&text);
        }

        #[test]
        fn every_member_of_a_list_is_kept(names in prop::collection::vec("[a-q][a-z_]{0,8}", 1..8)) {
            let grouped = parse(&format!("{{{}}},last", names.join(","))).unwrap();
            let members = match &grouped[0] {
                Item::Group(members) => members.len(),
                Item::Loose(_) => 1,
            };
            prop_assert_eq!((grouped.len(), members), (2, names.len()));
        }
    }
}
