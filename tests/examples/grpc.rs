//! The shop as a gRPC service.

use tests::redis_server::RedisServer;
use tonic::{
    Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

use crate::program::Server;

struct Shopper(Channel);

impl Shopper {
    async fn of(server: &Server) -> Self {
        Self(Channel::from_shared(server.url.clone()).unwrap().connect().await.unwrap())
    }

    async fn place_order(&self, user_id: u64) -> Result<String, Status> {
        self.call("/shop.Shop/PlaceOrder", user_id).await
    }

    async fn call<M>(&self, path: &'static str, message: M) -> Result<String, Status>
    where
        M: prost::Message + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.unwrap();
        let path = PathAndQuery::from_static(path);
        let codec = ProstCodec::<M, String>::default();
        Ok(grpc.unary(Request::new(message), path, codec).await?.into_inner())
    }
}

async fn keeps_its_limits(redis: Option<&RedisServer>) {
    let server = Server::with_file("tonic", redis, "shop.yaml");
    let shopper = Shopper::of(&server).await;
    for _ in 0..5 {
        assert_eq!(shopper.place_order(42).await.unwrap(), "order of user 42 placed");
    }
    let status = shopper.place_order(42).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let retry = status.get_details_retry_info().and_then(|info| info.retry_delay).unwrap();
    assert!((40..=60).contains(&retry.as_secs()), "{retry:?}");
    let left = status.metadata().get("ratelimit").unwrap().to_str().unwrap();
    assert!(left.starts_with("\"orders:{user_id}\";r=0;t="), "{left}");
    // A reseller, by the limits file.
    for _ in 0..20 {
        shopper.place_order(90_001).await.unwrap();
    }

    // Many at the same time, over one connection.
    let mut paid = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let shopper = Shopper(shopper.0.clone());
        paid.spawn(async move { shopper.call("/shop.Shop/Pay", ()).await.is_ok() });
    }
    let paid = paid.join_all().await.into_iter().filter(|paid| *paid).count();
    assert!((10..=20).contains(&paid), "{paid} payments in a second or two");
    if let Some(redis) = redis {
        redis.kill_hard();
        tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
        let status = shopper.call("/shop.Shop/Pay", ()).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(shopper.call("/shop.Shop/Quote", ()).await.unwrap(), "1.0734");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_with_tonic_keeps_its_limits() {
    keeps_its_limits(None).await;
    keeps_its_limits(Some(&RedisServer::start())).await;
}
