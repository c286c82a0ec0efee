//! The clients of a web service.

use super::LimitsBuilder;

impl LimitsBuilder {
    /// Trusts these proxies to name the client of a request, in `Forwarded` or `X-Forwarded-For`: address
    /// ranges such as `10.0.0.0/8`, or addresses. They replace those of the limits file.
    /// `web::ClientIp` describes how they are used.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderMap;
    /// use ratelimit_runtime::{Limits, web::ClientIp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let proxies = ["10.0.0.0/8", "2001:db8::17"];
    /// let limits = Limits::builder().memory().trusted_proxies(proxies).build().await?;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("forwarded", "for=203.0.113.7".parse()?);
    /// for (peer, client) in [("2001:db8::17", "203.0.113.7"), ("192.0.2.1", "192.0.2.1")] {
    ///     let peer = peer.parse()?;
    ///     let found = limits.scope(async { ClientIp::from_headers(peer, &headers) }).await;
    ///     assert_eq!(found.to_string(), client);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn trusted_proxies(mut self, proxies: impl IntoIterator<Item: Into<String>>) -> Self {
        self.trusted_proxies = Some(proxies.into_iter().map(Into::into).collect());
        self
    }

    /// Reads the client of a request only from this header of the trusted proxies: `forwarded`, or one with a list of
    /// addresses or a single one, such as `x-forwarded-for` or `x-real-ip`. It replaces that of the limits file.
    /// `web::ClientIp` describes when that is necessary.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::HeaderMap;
    /// use ratelimit_runtime::{Limits, web::ClientIp};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limits = Limits::builder()
    ///     .memory()
    ///     .trusted_proxies(["10.0.0.0/8"])
    ///     .client_ip_header("x-real-ip")
    ///     .build()
    ///     .await?;
    ///
    /// let mut headers = HeaderMap::new();
    /// headers.insert("x-forwarded-for", "192.0.2.66".parse()?);
    /// headers.insert("x-real-ip", "203.0.113.7".parse()?);
    /// let peer = "10.0.0.1".parse()?;
    /// let client = limits.scope(async { ClientIp::from_headers(peer, &headers) }).await;
    /// assert_eq!(client.to_string(), "203.0.113.7");
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_ip_header(mut self, name: impl Into<String>) -> Self {
        self.client_ip_header = Some(name.into());
        self
    }
}
