use super::{formula::Formula, *};
use crate::grammar::{events, extra, metrics};

fn neoverse_n1() -> Catalog {
    Catalog::new(&Product::by_name("neoverse-n1").unwrap(), &[], Vec::new())
}

fn all_products() -> impl Iterator<Item = Product> {
    Product::names()
        .chain(["armv8-a", "x86-64", "software"])
        .map(|name| Product::by_name(name).unwrap())
}

#[test]
fn every_product_has_events_and_every_metric_of_every_product_can_be_computed() {
    for product in all_products() {
        let catalog = Catalog::new(&product, &[], Vec::new());
        assert!(catalog.events().len() > 2, "{}", product.name());
        assert!(catalog.event("cycle").is_some(), "{}", product.name());
        for metric in catalog.metrics() {
            let label = format!("{} {}", product.name(), metric.name);
            let named: Vec<String> = metric
                .events
                .iter()
                .map(|spec| catalog.resolve(spec).expect(&label).name)
                .collect();
            let Some(formula) = &metric.formula else {
                continue;
            };
            for used in Formula::parse(formula).expect(&label).event_names() {
                assert!(named.iter().any(|n| key(n) == key(used)), "{label}: {used}");
            }
        }
        for group in catalog.groups() {
            assert!(!catalog.metric_or_group(&group.name).unwrap().is_empty());
        }
    }
}

#[test]
fn a_name_that_is_listed_can_be_counted() {
    for product in all_products() {
        let catalog = Catalog::new(&product, &[], Vec::new());
        for event in catalog.events() {
            let items = events::parse(&event.name).unwrap();
            let [events::Item::Loose(spec)] = items.as_slice() else {
                panic!("{event:?} is a list");
            };
            assert_eq!(catalog.resolve(spec).unwrap(), *event, "{}", product.name());
        }
    }
}

#[test]
fn names_only_a_product_has_are_found_and_so_are_the_architectures() {
    let n3 = Catalog::new(&Product::by_name("neoverse-n3").unwrap(), &[], Vec::new());
    let only_here = n3.events().iter().find(|event| {
        event.origin == Origin::Product && neoverse_n1().event(&event.name).is_none()
    });
    assert!(only_here.is_some());
    assert!(
        n3.event("L2I_TLB_REFILL").is_some(),
        "of the architecture only"
    );
}

#[test]
fn case_and_dashes_do_not_matter() {
    let catalog = Catalog::new(&Product::by_name("x86-64").unwrap(), &[], Vec::new());
    for name in ["cpu-cycles", "CPU_CYCLES", "Cpu-Cycles"] {
        assert_eq!(catalog.event(name).unwrap().code, 0x3C);
    }
    assert_eq!(catalog.event("llc-misses").unwrap().code, 0x412E);
    let software = Catalog::new(&Product::by_name("software").unwrap(), &[], Vec::new());
    assert_eq!(software.event("Elapsed_NS").unwrap().code, 0x10000);
    assert!(
        catalog.event("elapsed-ns").is_none(),
        "only the software PMU has it"
    );
}

#[test]
fn events_of_the_host_are_known_only_where_they_are_counted() {
    let product = Product::by_name("x86-64").unwrap();
    let catalog = |product: &Product| Catalog::new(product, &[], Vec::new());
    assert!(catalog(&product).event("page-faults").is_none());
    let in_lab = catalog(&product.counting_host());
    assert_eq!(in_lab.event("page-faults").unwrap().origin, Origin::Host);
}

#[test]
fn the_users_events_and_metrics_win() {
    let extra = extra::parse("inst_spec:1234,mine:77").unwrap();
    let user = metrics::parse("imix:mine,ld_spec").unwrap();
    let catalog = Catalog::new(&Product::by_name("neoverse-n1").unwrap(), &extra, user);
    assert_eq!(catalog.event("inst_spec").unwrap().code, 0x1234);
    assert_eq!(catalog.event("mine").unwrap().origin, Origin::Extra);
    assert_eq!(catalog.metric("imix").unwrap().events.len(), 2);
}

#[test]
fn a_group_of_metrics_expands_to_its_metrics_each_once() {
    let catalog = neoverse_n1();
    let group = catalog.group("Branch_Effectiveness").unwrap();
    let expanded = catalog
        .expand_metrics("branch_effectiveness,branch_mpki")
        .unwrap();
    assert_eq!(expanded.len(), group.metrics.len());
    assert_eq!(
        catalog.expand_metrics("nonsense"),
        Err(CatalogError::UnknownMetric("nonsense".into()))
    );
}

#[test]
fn a_code_takes_its_name_if_it_has_one() {
    let resolve = |text: &str| {
        let items = events::parse(text).unwrap();
        let events::Item::Loose(spec) = &items[0] else {
            panic!("{text}");
        };
        neoverse_n1().resolve(spec)
    };
    assert_eq!(resolve("r1b").unwrap().name, "inst_spec");
    assert_eq!(resolve("0xABCD").unwrap().name, "rabcd");
    assert_eq!(
        resolve("nonsense").unwrap_err().to_string(),
        "unknown event name: nonsense"
    );
    assert_eq!(
        resolve("/dsu/l3d_cache").unwrap_err().to_string(),
        "event 'l3d_cache': the driver found no dsu device"
    );
}
