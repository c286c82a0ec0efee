package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateIntervalUnit;
import org.redisson.api.RateLimiterConfig;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.codec.SerializationCodec;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/**
 * Redisson's rate limiter by command: reads one command a line, answers each with one line.
 *
 * <p>Words are separated by spaces, times are milliseconds, TYPE is OVERALL or PER_CLIENT:
 *
 * <pre>
 * connect HOST:PORT [TIMEOUT RETRY_DELAY]             the client's id
 * trySetRate NAME TYPE RATE PER [KEEP_ALIVE]          true, false
 * setRate NAME TYPE RATE PER [KEEP_ALIVE]             ok
 * setRateArgs NAME TYPE RATE PER KEEP_ALIVE keep|reset   ok
 * updateRate NAME TYPE RATE PER KEEP_ALIVE keep|reset    true, false
 * tryAcquire NAME PERMITS [TIMEOUT]                   true, false
 * acquire NAME PERMITS                                ok
 * availablePermits NAME                               a number
 * release NAME PERMITS                                ok
 * getConfig NAME                                      TYPE RATE PER
 * delete|isExists|clearExpire NAME                    true, false
 * expire NAME TIME                                    true, false
 * remainTimeToLive NAME                               a number, -1 for never, -2 for no limiter
 * load NAME THREADS TIME try|wait PERMITS             granted N refused N errors N [the first]
 * </pre>
 *
 * <p>What this version of Redisson does not have is answered {@code unsupported}, a failure {@code
 * error CLASS: MESSAGE}.
 */
public final class Driver {

  private static RedissonClient client;

  private Driver() {}

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader commands =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      answers.println(answer(line.split(" ")));
    }
    // Whoever closes our input wants us gone, not its clients shut down gently.
    Runtime.getRuntime().halt(0);
  }

  private static String answer(String[] words) {
    try {
      if (words[0].equals("connect")) {
        return connect(words);
      }
      return String.valueOf(run(words, client.getRateLimiter(words[1])));
    } catch (NoSuchMethodException | ClassNotFoundException absent) {
      return "unsupported";
    } catch (InvocationTargetException thrown) {
      return failure(thrown.getCause());
    } catch (Exception thrown) {
      return failure(thrown);
    }
  }

  /** In one line, without the script and the connection that Redisson shows along. */
  private static String failure(Throwable thrown) {
    String message = String.valueOf(thrown.getMessage()).replaceAll("\\s+", " ");
    String said = message.split(" script: | channel: |,? params: |,? promise: ")[0];
    return "error " + thrown.getClass().getSimpleName() + ": " + said;
  }

  private static String connect(String[] words) {
    if (client != null) {
      client.shutdown(0, 1, TimeUnit.SECONDS);
    }
    // A codec that would change each number, if a limiter used it.
    Config config = new Config().setCodec(new SerializationCodec());
    config.setThreads(4).setNettyThreads(4);
    SingleServerConfig server = config.useSingleServer();
    server.setAddress("redis://" + words[1]);
    server.setConnectionPoolSize(16).setConnectionMinimumIdleSize(8);
    server.setSubscriptionConnectionMinimumIdleSize(0);
    if (words.length > 2) {
      server.setTimeout(Integer.parseInt(words[2]));
      server.setRetryInterval(Integer.parseInt(words[3]));
    }
    client = Redisson.create(config);
    return client.getId();
  }

  private static Object run(String[] words, RRateLimiter limiter) throws Exception {
    switch (words[0]) {
      case "trySetRate":
      case "setRate":
        return orOk(setRate(words, limiter));
      case "setRateArgs":
        return orOk(withArgs("setRate", words, limiter));
      case "updateRate":
        return withArgs("updateRate", words, limiter);
      case "tryAcquire":
        return words.length > 3
            ? limiter.tryAcquire(number(words[2]), number(words[3]), TimeUnit.MILLISECONDS)
            : limiter.tryAcquire(number(words[2]));
      case "acquire":
        limiter.acquire(number(words[2]));
        return "ok";
      case "availablePermits":
        return limiter.availablePermits();
      case "release":
        return orOk(method("release", long.class).invoke(limiter, number(words[2])));
      case "getConfig":
        RateLimiterConfig config = limiter.getConfig();
        return config.getRateType() + " " + config.getRate() + " " + config.getRateInterval();
      case "delete":
        return limiter.delete();
      case "isExists":
        return limiter.isExists();
      case "expire":
        return limiter.expire(millis(words[2]));
      case "clearExpire":
        return limiter.clearExpire();
      case "remainTimeToLive":
        return limiter.remainTimeToLive();
      case "load":
        return load(words, limiter);
      default:
        return "error: unknown command " + words[0];
    }
  }

  /** The overloads with a Duration where there are any, else those with a unit. */
  private static Object setRate(String[] words, RRateLimiter limiter) throws Exception {
    RateType type = RateType.valueOf(words[2]);
    long rate = number(words[3]);
    if (words.length > 5) {
      return method(words[0], RateType.class, long.class, Duration.class, Duration.class)
          .invoke(limiter, type, rate, millis(words[4]), millis(words[5]));
    }
    try {
      return method(words[0], RateType.class, long.class, Duration.class)
          .invoke(limiter, type, rate, millis(words[4]));
    } catch (NoSuchMethodException older) {
      return method(words[0], RateType.class, long.class, long.class, RateIntervalUnit.class)
          .invoke(limiter, type, rate, number(words[4]), RateIntervalUnit.MILLISECONDS);
    }
  }

  private static Object withArgs(String operation, String[] words, RRateLimiter limiter)
      throws Exception {
    Class<?> kind = Class.forName("org.redisson.api.ratelimiter.RateLimiterArgs");
    Object args =
        kind.getMethod("of", RateType.class, long.class, Duration.class)
            .invoke(null, RateType.valueOf(words[2]), number(words[3]), millis(words[4]));
    args = kind.getMethod("keepAliveTime", Duration.class).invoke(args, millis(words[5]));
    args = kind.getMethod("keepState", boolean.class).invoke(args, words[6].equals("keep"));
    return method(operation, kind).invoke(limiter, args);
  }

  /** Takes permits from several threads, as fast as it can, for a time. */
  private static String load(String[] words, RRateLimiter limiter) throws InterruptedException {
    long end = System.nanoTime() + millis(words[3]).toNanos();
    boolean waits = words[4].equals("wait");
    long permits = number(words[5]);
    AtomicLong granted = new AtomicLong();
    AtomicLong refused = new AtomicLong();
    AtomicLong errors = new AtomicLong();
    AtomicReference<String> first = new AtomicReference<>("");
    Runnable caller =
        () -> {
          for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
            try {
              boolean taken =
                  waits
                      ? limiter.tryAcquire(permits, left / 1_000_000, TimeUnit.MILLISECONDS)
                      : limiter.tryAcquire(permits);
              (taken ? granted : refused).incrementAndGet();
              if (!taken) {
                Thread.sleep(2);
              }
            } catch (Exception thrown) {
              errors.incrementAndGet();
              first.compareAndSet("", " " + failure(thrown));
            }
          }
        };
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < number(words[2]); i++) {
      threads.add(new Thread(caller));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    return "granted " + granted + " refused " + refused + " errors " + errors + first;
  }

  private static Method method(String name, Class<?>... types) throws NoSuchMethodException {
    return RRateLimiter.class.getMethod(name, types);
  }

  private static Object orOk(Object result) {
    return result == null ? "ok" : result;
  }

  private static long number(String word) {
    return Long.parseLong(word);
  }

  private static Duration millis(String word) {
    return Duration.ofMillis(number(word));
  }
}
