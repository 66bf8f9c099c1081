//! Plots as SVG.

use core::ops::Range;
use std::collections::BTreeMap;

use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::{IntoSegmentedCoord, SegmentValue};
use plotters::drawing::IntoDrawingArea;
use plotters::prelude::SVGBackend;
use plotters::series::{Histogram, LineSeries};
use plotters::style::{Color, RGBColor, TRANSPARENT};

/// Size of a plot, in units of its own.
const SIZE: (u32, u32) = (520, 220);
/// Colours that can be read on light and on dark paper.
const CURVE: RGBColor = RGBColor(64, 132, 214);
const AXIS: RGBColor = RGBColor(128, 128, 128);
/// Points of a curve, at most: more can't be seen.
const MAX_POINTS: usize = 800;

/// A curve of samples in their order, each divided by `unit`; none of fewer than three.
pub(super) fn line(samples: &[u64], x: &str, y: &str, unit: f64) -> Option<String> {
    if samples.len() < 3 || samples.iter().all(|sample| *sample == 0) {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a plot")]
    let value = |sample: u64| sample as f64 / unit;
    let step = samples.len().div_ceil(MAX_POINTS);
    // The highest of each stretch: what is looked for is what sticks out.
    let stretches = samples
        .chunks(step)
        .map(|chunk| chunk.iter().copied().max().unwrap_or(0));
    let points: Vec<(usize, f64)> = stretches
        .enumerate()
        .map(|(index, sample)| (index * step, value(sample)))
        .collect();
    let top = points.iter().map(|(_, y)| *y).fold(0.0, f64::max) * 1.1;
    draw(&points, samples.len(), top, x, y).ok()
}

/// A bar for each duration that calls had: each bar is of calls below so many nanoseconds, a power of two.
pub(super) fn bars(calls: &BTreeMap<u64, u64>) -> Option<String> {
    let (first, last) = (calls.keys().next()?, calls.keys().next_back()?);
    let logarithm = |below: u64| below.max(1).ilog2();
    let bars: Vec<(u32, u64)> = calls
        .iter()
        .map(|(below, count)| (logarithm(*below), *count))
        .collect();
    draw_bars(&bars, logarithm(*first)..logarithm(*last) + 1).ok()
}

fn draw_bars(bars: &[(u32, u64)], range: Range<u32>) -> Result<String, Box<dyn std::error::Error>> {
    let top = bars.iter().map(|(_, count)| *count).max().unwrap_or(1);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(32)
            .y_label_area_size(64)
            .build_cartesian_2d(range.into_segmented(), 0..top + top / 10 + 1)?;
        let label = |value: &SegmentValue<u32>| match value {
            SegmentValue::Exact(log) | SegmentValue::CenterOf(log) => {
                duration(1u64.checked_shl(*log).unwrap_or(0))
            }
            SegmentValue::Last => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(10)
            .y_labels(5)
            .axis_style(AXIS)
            .bold_line_style(AXIS.mix(0.3))
            .light_line_style(TRANSPARENT)
            .x_label_formatter(&label)
            .x_desc("shorter than")
            .y_desc("calls")
            .draw()?;
        let bars = Histogram::vertical(&chart)
            .style(CURVE.filled())
            .margin(3)
            .data(bars.iter().copied());
        chart.draw_series(bars)?;
        area.present()?;
    }
    Ok(scalable(&svg))
}

/// A duration in few letters.
fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} µs", ns / 1_000),
        _ => format!("{} ms", ns / 1_000_000),
    }
}

/// Without the size in pixels it fills its figure.
fn scalable(svg: &str) -> String {
    let fixed = format!("width=\"{}\" height=\"{}\" ", SIZE.0, SIZE.1);
    svg.replacen(&fixed, "", 1)
}

fn draw(
    points: &[(usize, f64)],
    end: usize,
    top: f64,
    x: &str,
    y: &str,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .margin_right(28)
            .x_label_area_size(32)
            .y_label_area_size(64)
            .build_cartesian_2d(0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(6)
            .y_labels(5)
            .y_label_formatter(&|value| {
                if top < 10.0 {
                    format!("{value:.1}")
                } else {
                    format!("{value:.0}")
                }
            })
            .axis_style(AXIS)
            .bold_line_style(AXIS.mix(0.3))
            .light_line_style(TRANSPARENT)
            .x_desc(x)
            .y_desc(y)
            .draw()?;
        chart.draw_series(LineSeries::new(points.iter().copied(), &CURVE))?;
        area.present()?;
    }
    Ok(scalable(&svg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_where_calls_are() {
        let svg = bars(&BTreeMap::from([(512, 9), (2048, 3)])).expect("two bars");
        assert!(svg.contains("512 ns") && svg.contains("2 µs"), "{svg}");
        assert_eq!(bars(&BTreeMap::new()), None);
    }

    #[test]
    fn a_curve_is_one_svg_and_nothing_is_no_curve() {
        let svg = line(&[1000, 2000, 1500, 90_000], "cycle", "µs", 1e3).expect("four samples");
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{svg}"
        );
        assert!(svg.contains("viewBox") && !svg.contains("width=\"520\""));
        for empty in [&[][..], &[1, 2], &[0; 50]] {
            assert_eq!(line(empty, "x", "y", 1.0), None);
        }
        assert!(line(&vec![7; 1_000_000], "x", "y", 1.0).is_some_and(|svg| svg.len() < 100_000));
    }
}
