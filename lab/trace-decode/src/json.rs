//! Events as JSON, one a line.

use serde_json::{Map, Value as Json, json};
use trace_format::Form;

use crate::stream::{Event, Loss, Time};
use crate::value::{Value, values};

/// An event.
#[must_use]
pub fn event(event: &Event, time: &Time) -> Json {
    let mut object = Map::new();
    let mut put = |key: &str, value: Json| object.insert(key.to_owned(), value);
    put("time_ns", json!(time.ns(event.ticks)));
    put("ticks", event.ticks.into());
    put("processor", event.processor.into());
    put("at_dispatch", event.at_dispatch.into());
    put("position", event.position.into());
    put("id", event.id.into());
    let Some(site) = &event.site else {
        return Json::Object(object);
    };
    put("level", site.level.name().into());
    put("flag", site.flag_name.as_str().into());
    let form = match site.form {
        Form::Message => "message",
        Form::Enter => "enter",
        Form::Exit | Form::ScopeExit => "exit",
    };
    put("form", form.into());
    put("function", site.function.as_str().into());
    put("callers", json!(site.callers));
    put("text", site.text.as_str().into());
    put("file", site.file.as_str().into());
    put("line", site.line.into());
    let arguments = values(site, event.words.as_slice());
    let arguments = arguments.map(|(name, value)| (name.to_owned(), argument(&value)));
    put("arguments", Json::Object(arguments.collect()));
    Json::Object(object)
}

fn argument(value: &Value) -> Json {
    match value {
        Value::Unsigned(value) => json!(value),
        Value::Signed(value) => json!(value),
        Value::Bool(value) => json!(value),
        Value::Text(text, _) => json!(text),
        Value::Missing => Json::Null,
        other => json!(other.to_string()),
    }
}

/// A loss.
#[must_use]
pub fn loss(loss: &Loss) -> Json {
    json!({
        "lost_slots": loss.slots,
        "processor": loss.ring / 2,
        "at_dispatch": loss.ring % 2 == 1,
        "position": loss.position,
    })
}
