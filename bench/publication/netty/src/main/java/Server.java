import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.group.ChannelGroup;
import io.netty.channel.group.DefaultChannelGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.websocketx.TextWebSocketFrame;
import io.netty.handler.codec.http.websocketx.WebSocketServerProtocolHandler;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/**
 * Netty: a group of all channels, frames that share one buffer, and nothing written to a channel above its high-water
 * mark. The socket comes as standard input, already listening, because Java cannot set TCP_CONGESTION.
 */
public final class Server {
  private final ChannelGroup subscribers = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE);
  private int answers;
  private ByteBuf answer = Unpooled.EMPTY_BUFFER;

  private final class Subscriber extends SimpleChannelInboundHandler<TextWebSocketFrame> {
    @Override
    public void userEventTriggered(ChannelHandlerContext context, Object event) throws Exception {
      if (event instanceof WebSocketServerProtocolHandler.HandshakeComplete) {
        subscribers.add(context.channel());
      }
      super.userEventTriggered(context, event);
    }

    @Override
    protected void channelRead0(ChannelHandlerContext context, TextWebSocketFrame frame) {
      for (int i = 0; i < answers; i++) {
        context.write(new TextWebSocketFrame(answer.retainedDuplicate()), context.voidPromise());
      }
      context.flush();
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
      context.close();
    }
  }

  private static ByteBuf direct(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
    return Unpooled.unreleasableBuffer(Unpooled.directBuffer(bytes.length).writeBytes(bytes));
  }

  private void pace(double rate, int bytes) {
    long start = System.nanoTime();
    java.time.Instant now = java.time.Instant.now();
    long startRealtime = now.getEpochSecond() * 1_000_000_000L + now.getNano();
    for (long n = 1; ; n++) {
      long after = (long) (n / rate * 1e9);
      while (System.nanoTime() - start < after) {
        LockSupport.parkNanos(after - (System.nanoTime() - start));
      }
      String head = "{\"seq\":" + n + ",\"ts_ns\":" + (startRealtime + after) + ",\"pad\":\"";
      String text = head + "x".repeat(Math.max(0, bytes - head.length() - 2)) + "\"}";
      subscribers.writeAndFlush(
          new TextWebSocketFrame(Unpooled.copiedBuffer(text, StandardCharsets.US_ASCII)), Channel::isWritable, true);
    }
  }

  private void run(Map<String, String> options) throws Exception {
    String respond = options.get("--respond");
    if (respond != null) {
      String[] parts = respond.split("x");
      answers = Integer.parseInt(parts[0]);
      answer = direct("x".repeat(Integer.parseInt(parts[1])));
    }
    var inherited = (ServerSocketChannel) System.inheritedChannel();
    var bootstrap = new ServerBootstrap()
        .group(new MultiThreadIoEventLoopGroup(NioIoHandler.newFactory()))
        .channelFactory(() -> new NioServerSocketChannel(inherited))
        .childOption(ChannelOption.TCP_NODELAY, true)
        .childHandler(new ChannelInitializer<Channel>() {
          @Override
          protected void initChannel(Channel channel) {
            channel.pipeline().addLast(
                new HttpServerCodec(),
                new HttpObjectAggregator(65_536),
                new WebSocketServerProtocolHandler("/", null, false, 32 * 1024, false, true),
                new Subscriber());
          }
        });
    Channel server = bootstrap.register().sync().channel();
    InetSocketAddress address = (InetSocketAddress) inherited.getLocalAddress();
    Path ready = Path.of(options.get("--ready-file"));
    Path unfinished = Path.of(ready + ".unfinished");
    Files.writeString(
        unfinished,
        "{\"http\":\"127.0.0.1:" + address.getPort() + "\",\"pid\":" + ProcessHandle.current().pid() + "}");
    Files.move(unfinished, ready, StandardCopyOption.ATOMIC_MOVE);
    if (respond == null) {
      pace(Double.parseDouble(options.get("--synthetic")), Integer.parseInt(options.getOrDefault("--bytes", "190")));
    }
    server.closeFuture().sync();
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, String> options = new HashMap<>();
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      options.put(arguments[i], arguments[i + 1]);
    }
    new Server().run(options);
  }
}
