//! Times, sizes and counts as people read them.

use jiff::tz::TimeZone;
pub use stockade_protocol::text::group_digits as count;
use stockade_protocol::time::Timestamp;

/// A length of time: `340 ms`, `4.2 s`, `3:05`, `2:00:05`.
#[must_use]
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => span(ms / 1_000),
    }
}

/// Seconds as `m:ss` or `h:mm:ss`.
#[must_use]
pub fn span(seconds: u64) -> String {
    let (h, m, s) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    if h > 0 { format!("{h}:{m:02}:{s:02}") } else { format!("{m}:{s:02}") }
}

/// How long ago, in one unit: `3s`, `4m`, `2h`, `5d`.
#[must_use]
pub fn age(ms: u64) -> String {
    match ms / 1_000 {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3_600 => format!("{}m", s / 60),
        s @ 3_600..172_800 => format!("{}h", s / 3_600),
        s => format!("{}d", s / 86_400),
    }
}

/// How long, in whole minutes or more: `<1m`, `4m`, `2h`, `5d`. For what is drawn all the time: it changes rarely.
#[must_use]
pub fn minutes(ms: u64) -> String {
    if ms < 60_000 { "<1m".into() } else { age(ms) }
}

/// A size: `812 B`, `41.0 kB`, `3.1 MB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1_000_000 && unit + 1 < UNITS.len() {
        value /= 1_000;
        unit += 1;
    }
    let (whole, tenth) = (value / 1_000, value % 1_000 / 100);
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if whole < 100 { format!("{whole}.{tenth} {name}") } else { format!("{whole} {name}") }
}

/// A count and its noun: `1 call`, `2 calls`.
#[must_use]
pub fn plural(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// The time of day in a zone, without seconds: `12:41`.
#[must_use]
pub fn clock_minutes(time: Timestamp, zone: &TimeZone) -> String {
    clock(time, zone).get(..5).unwrap_or_default().to_owned()
}

/// The time of day in a zone: `12:41:07`.
#[must_use]
pub fn clock(time: Timestamp, zone: &TimeZone) -> String {
    local(time, zone)
        .map_or_else(|| "--:--:--".into(), |z| format!("{:02}:{:02}:{:02}", z.hour(), z.minute(), z.second()))
}

/// The date in a zone: `2026-11-30`.
#[must_use]
pub fn date(time: Timestamp, zone: &TimeZone) -> String {
    local(time, zone).map_or_else(|| "----------".into(), |z| z.date().to_string())
}

fn local(time: Timestamp, zone: &TimeZone) -> Option<jiff::Zoned> {
    let ms = i64::try_from(time.0).ok()?;
    Some(jiff::Timestamp::from_millisecond(ms).ok()?.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_read_well() {
        assert_eq!([duration(340), duration(4_250), duration(185_000)], ["340 ms", "4.2 s", "3:05"]);
        assert_eq!([span(59), span(7_205)], ["0:59", "2:00:05"]);
        assert_eq!([age(3_000), age(240_000), age(7_200_000), age(500_000_000)], ["3s", "4m", "2h", "5d"]);
        assert_eq!(
            [bytes(812), bytes(41_000), bytes(3_140_000), bytes(999_999)],
            ["812 B", "41.0 kB", "3.1 MB", "999 kB"]
        );
        assert_eq!([count(7), count(1_204), count(1_000_000)], ["7", "1 204", "1 000 000"]);
        assert_eq!(clock(Timestamp(3_661_000), &TimeZone::UTC), "01:01:01");
        assert_eq!(clock(Timestamp(u64::MAX), &TimeZone::UTC), "--:--:--");
    }
}
