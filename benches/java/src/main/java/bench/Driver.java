package bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's rate limiter under load: reads one command a line, answers each with one line.
 *
 * <p>Words are separated by spaces, times are milliseconds, TYPE is OVERALL or PER_CLIENT. A
 * limiter of N keys is those named NAME:0 to NAME:N-1, each decision of one of them at random; of 1
 * key it is NAME:0.
 *
 * <pre>
 * connect HOST:PORT                     version of the JVM
 * create NAME KEYS TYPE RATE PER        ok, once each is configured and was used
 * closed threads|async CALLERS TIME     a sample: so many callers, each asks again when answered
 * open RATE TIME                        a sample: so many arrivals a second, answered or not
 * wait NAME CALLERS TIME                ORDINAL:NANOS of each grant to callers that acquire
 * </pre>
 *
 * <p>{@code closed} and {@code open} use what {@code create} made last. A sample is {@code allowed
 * N refused N errors N nanos N VALUE:COUNT ..}, the values being latencies in nanoseconds.
 */
public final class Driver {

  private static RedissonClient client;
  private static RRateLimiter[] limiters;

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
      return run(words);
    } catch (Exception thrown) {
      return "error " + String.valueOf(thrown).replaceAll("\\s+", " ");
    }
  }

  private static String run(String[] words) throws Exception {
    switch (words[0]) {
      case "connect":
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + words[1]);
        client = Redisson.create(config);
        return System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version");
      case "create":
        limiters = create(words);
        return "ok";
      case "closed":
        boolean threads = words[1].equals("threads");
        int callers = Integer.parseInt(words[2]);
        return new Load(limiters, millis(words[3])).closed(threads, callers).toString();
      case "open":
        return new Load(limiters, millis(words[2])).open(Integer.parseInt(words[1])).toString();
      case "wait":
        return waiting(words[1], Integer.parseInt(words[2]), millis(words[3]));
      default:
        return "error unknown command " + words[0];
    }
  }

  private static RRateLimiter[] create(String[] words) throws InterruptedException {
    RRateLimiter[] made = new RRateLimiter[Integer.parseInt(words[2])];
    // As many as the pool has connections, lest a queue of them time out.
    Semaphore underWay = new Semaphore(64);
    for (int i = 0; i < made.length; i++) {
      RRateLimiter limiter = client.getRateLimiter(words[1] + ":" + i);
      made[i] = limiter;
      underWay.acquire();
      limiter
          .trySetRateAsync(
              RateType.valueOf(words[3]), Long.parseLong(words[4]), millis(words[5]))
          .thenCompose(set -> limiter.tryAcquireAsync())
          .whenComplete((taken, thrown) -> underWay.release());
    }
    underWay.acquire(64);
    return made;
  }

  /** Callers that come one after another and wait for as long as it takes. */
  private static String waiting(String name, int callers, Duration time) throws Exception {
    RRateLimiter limiter = client.getRateLimiter(name);
    List<String> grants = new ArrayList<>();
    long start = System.nanoTime();
    for (int i = 0; i < callers; i++) {
      int ordinal = i;
      Runnable caller =
          () -> {
            try {
              limiter.acquire();
            } catch (Exception deleted) {
              return;
            }
            synchronized (grants) {
              grants.add(String.format(Locale.ROOT, "%d:%d", ordinal, System.nanoTime() - start));
            }
          };
      Thread thread = new Thread(caller);
      thread.setDaemon(true);
      thread.start();
    }
    TimeUnit.NANOSECONDS.sleep(time.toNanos() - (System.nanoTime() - start));
    synchronized (grants) {
      String answer = String.join(" ", grants);
      // Whoever still waits fails with its next attempt.
      limiter.delete();
      return answer;
    }
  }

  private static Duration millis(String word) {
    return Duration.ofMillis(Long.parseLong(word));
  }
}
