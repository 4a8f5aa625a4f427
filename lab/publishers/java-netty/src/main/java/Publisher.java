import io.nats.client.Nats;
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
import io.netty.handler.codec.http.FullHttpRequest;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.QueryStringDecoder;
import io.netty.handler.codec.http.websocketx.TextWebSocketFrame;
import io.netty.handler.codec.http.websocketx.WebSocketServerProtocolHandler;
import io.netty.util.concurrent.GlobalEventExecutor;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Netty: one group of all channels, frames that share one buffer. A channel above its high-water
 * mark misses messages.
 */
public final class Publisher {
  private final ChannelGroup subscribers = new DefaultChannelGroup(GlobalEventExecutor.INSTANCE);
  private final String test = Workload.test(List.of("echo", "heartbeat", "fan-out", "queue"));
  private final int messages = Workload.number("LAB_MESSAGES");
  private final ByteBuf reply = reply(Workload.number("LAB_BYTES"));

  private static ByteBuf reply(int bytes) {
    byte[] text = "x".repeat(bytes).getBytes(StandardCharsets.US_ASCII);
    return Unpooled.unreleasableBuffer(Unpooled.directBuffer(bytes).writeBytes(text));
  }

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
      if (test.equals("echo")) {
        context.writeAndFlush(frame.retain(), context.voidPromise());
      } else if (test.equals("heartbeat")) {
        for (int i = 0; i < messages; i++) {
          context.write(new TextWebSocketFrame(reply.retainedDuplicate()), context.voidPromise());
        }
        context.flush();
      }
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
      context.close();
    }
  }

  /** Refuses a handshake without the right token. */
  private static final class TokenCheck extends SimpleChannelInboundHandler<FullHttpRequest> {
    private static final List<String> EXPECTED = List.of(System.getenv("LAB_TOKEN"));

    @Override
    protected void channelRead0(ChannelHandlerContext context, FullHttpRequest request) {
      List<String> given = new QueryStringDecoder(request.uri()).parameters().get("token");
      if (EXPECTED.equals(given)) {
        context.fireChannelRead(request.retain());
        return;
      }
      var refusal = new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.UNAUTHORIZED);
      refusal.headers().set("content-length", 0);
      context.writeAndFlush(refusal).addListener(done -> context.close());
    }
  }

  private void publish(ByteBuf text) {
    subscribers.writeAndFlush(new TextWebSocketFrame(text), Channel::isWritable, true);
  }

  private void consume() throws Exception {
    var queue = Nats.connect(System.getenv("LAB_QUEUE"));
    queue
        .createDispatcher(message -> publish(Unpooled.wrappedBuffer(message.getData())))
        .subscribe(System.getenv("LAB_SUBJECT"));
  }

  private void run() throws Exception {
    boolean hasTokens = test.equals("queue");
    var bootstrap = new ServerBootstrap()
        .group(new MultiThreadIoEventLoopGroup(NioIoHandler.newFactory()))
        .channel(NioServerSocketChannel.class)
        .childOption(ChannelOption.TCP_NODELAY, true)
        .childHandler(new ChannelInitializer<Channel>() {
          @Override
          protected void initChannel(Channel channel) {
            channel.pipeline().addLast(new HttpServerCodec(), new HttpObjectAggregator(65_536));
            if (hasTokens) {
              channel.pipeline().addLast(new TokenCheck());
            }
            channel.pipeline().addLast(
                new WebSocketServerProtocolHandler("/", null, false, 1 << 20, false, true), new Subscriber());
          }
        });
    Channel server = bootstrap.bind(System.getenv("LAB_HOST"), Workload.number("LAB_PORT")).sync().channel();
    if (hasTokens) {
      consume();
    }
    int port = ((InetSocketAddress) server.localAddress()).getPort();
    Workload.ready(port);
    if (test.equals("fan-out")) {
      Workload.generate(text -> publish(Unpooled.copiedBuffer(text, StandardCharsets.US_ASCII)));
    }
    server.closeFuture().sync();
  }

  public static void main(String[] arguments) throws Exception {
    new Publisher().run();
  }
}
