//! The cost of a layer per request, compared with tower_governor: the service alone, the limit, and the limit with
//! headers.

use std::{
    convert::Infallible,
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
};

use axum::{
    body::Body,
    extract::ConnectInfo,
    http::{Request, Response},
};
use benches::embedded::{USERS, once, ready, unreached};
use criterion::Criterion;
use ratelimit_runtime::{Limits, Quota, tower::Limit, web::Headers};
use tower::{Layer, Service, ServiceExt, layer::util::Identity};
use tower_governor::{
    GovernorLayer,
    governor::GovernorConfigBuilder,
    key_extractor::{GlobalKeyExtractor, PeerIpKeyExtractor},
};

use super::{Group, calls, group};

/// Returns a request of a client with a known address.
fn request(user: u64) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let client = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(user).unwrap_or_default());
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((client, 4000))));
    request
}

async fn answer(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}

/// Sends a request as a router does: to a clone of the service.
async fn send<S, B>(service: &S, user: u64)
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    let _ = black_box(service.clone().oneshot(request(user)).await);
}

/// Measures a layer that has already seen all clients.
fn through<L, B>(group: &mut Group<'_>, name: &str, layer: &L)
where
    L: Layer<
            tower::util::ServiceFn<fn(Request<Body>) -> Answering>,
            Service: Service<Request<Body>, Response = Response<B>, Error = Infallible>
                         + Clone
                         + Sync,
        >,
{
    let service = layer.layer(tower::service_fn(boxed as fn(_) -> _));
    (0..USERS).for_each(|user| ready(send(&service, user)));
    calls(group, name, &service, async |service, user| send(service, user).await);
}

type Answering = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

fn boxed(request: Request<Body>) -> Answering {
    Box::pin(answer(request))
}

fn ours(group: &mut Group<'_>, limits: &Limits, template: &str, quota: Quota) {
    for (name, headers) in [("ours", Headers::Off), ("ours_headers", Headers::Ietf)] {
        let layer = Limit::new(template, quota).limits(limits).headers(headers);
        through(group, name, &layer);
    }
}

/// tower_governor's layer for an extractor of keys, with headers and without.
macro_rules! governed {
    ($group:expr, $builder:expr) => {
        let plain = GovernorLayer::<_, _, Body>::new($builder.finish().expect("a quota"));
        through($group, "governor", &plain);
        let headers = $builder.use_headers().finish().expect("a quota");
        through($group, "governor_headers", &GovernorLayer::<_, _, Body>::new(headers));
    };
}

pub(super) fn layers(criterion: &mut Criterion, limits: &Limits) {
    const PLENTY: u32 = 1_000_000_000;
    let plenty = unreached().token_bucket(unreached().rate()).expect("a bucket that can be");
    let mut builder = GovernorConfigBuilder::default();
    builder.per_nanosecond(1).burst_size(PLENTY);
    let mut once_each = GovernorConfigBuilder::default();
    once_each.per_second(3600).burst_size(1);

    let mut one = group(criterion, "layer_one");
    through(&mut one, "service", &Identity::new());
    ours(&mut one, limits, "layer", plenty);
    governed!(&mut one, builder.key_extractor(GlobalKeyExtractor));
    one.finish();

    let mut by_ip = group(criterion, "layer_by_ip");
    ours(&mut by_ip, limits, "layer:{ip}", plenty);
    governed!(&mut by_ip, builder.key_extractor(PeerIpKeyExtractor));
    by_ip.finish();

    let mut refused = group(criterion, "layer_refused");
    ours(&mut refused, limits, "layer_once:{ip}", once());
    governed!(&mut refused, once_each.key_extractor(PeerIpKeyExtractor));
    refused.finish();
}
