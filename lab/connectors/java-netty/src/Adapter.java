import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.ChannelPipeline;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.CorruptedFrameException;
import io.netty.handler.codec.TooLongFrameException;
import io.netty.handler.codec.http.DefaultHttpHeaders;
import io.netty.handler.codec.http.HttpClientCodec;
import io.netty.handler.codec.http.HttpObjectAggregator;
import io.netty.handler.codec.http.websocketx.BinaryWebSocketFrame;
import io.netty.handler.codec.http.websocketx.CloseWebSocketFrame;
import io.netty.handler.codec.http.websocketx.TextWebSocketFrame;
import io.netty.handler.codec.http.websocketx.WebSocketClientHandshaker;
import io.netty.handler.codec.http.websocketx.WebSocketClientHandshakerFactory;
import io.netty.handler.codec.http.websocketx.WebSocketClientProtocolHandler;
import io.netty.handler.codec.http.websocketx.WebSocketClientProtocolHandler.ClientHandshakeStateEvent;
import io.netty.handler.codec.http.websocketx.WebSocketFrame;
import io.netty.handler.codec.http.websocketx.WebSocketFrameAggregator;
import io.netty.handler.codec.http.websocketx.WebSocketVersion;
import io.netty.handler.codec.http.websocketx.Utf8FrameValidator;
import io.netty.handler.codec.http.websocketx.extensions.WebSocketClientExtensionHandler;
import io.netty.handler.codec.http.websocketx.extensions.compression.PerMessageDeflateClientExtensionHandshaker;
import io.netty.handler.ssl.SslHandler;
import io.netty.util.concurrent.Promise;
import java.net.URI;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;

/** Netty, with the handlers of its client example and an aggregator for fragments. */
final class Adapter extends Library {
    private final MultiThreadIoEventLoopGroup loop = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());

    Adapter() {
        super("Netty", WebSocketFrame.class);
    }

    @Override
    Link open(Target target, Events events) throws Exception {
        URI url = target.url();
        boolean isSecure = "wss".equals(url.getScheme());
        int port = url.getPort() >= 0 ? url.getPort() : isSecure ? 443 : 80;
        WebSocketClientHandshaker handshaker = WebSocketClientHandshakerFactory.newHandshaker(url, WebSocketVersion.V13,
                null, target.compresses(), new DefaultHttpHeaders(), MESSAGE_MOST);
        Promise<Void> opened = loop.next().newPromise();
        Bootstrap bootstrap = new Bootstrap().group(loop).channel(NioSocketChannel.class)
                .option(ChannelOption.TCP_NODELAY, true)
                .option(ChannelOption.CONNECT_TIMEOUT_MILLIS, OPEN_SECONDS * 1_000)
                .handler(new ChannelInitializer<SocketChannel>() {
                    @Override
                    protected void initChannel(SocketChannel channel) throws Exception {
                        ChannelPipeline pipeline = channel.pipeline();
                        if (isSecure) {
                            pipeline.addLast(new SslHandler(engine(target, url.getHost(), port)));
                        }
                        pipeline.addLast(new HttpClientCodec(), new HttpObjectAggregator(8_192));
                        if (target.compresses()) {
                            // By default Netty refuses a server that says it keeps no context.
                            pipeline.addLast(new WebSocketClientExtensionHandler(
                                    new PerMessageDeflateClientExtensionHandshaker(6, false, 15, true, true, MESSAGE_MOST)));
                        }
                        pipeline.addLast(new WebSocketClientProtocolHandler(handshaker, false, false),
                                new Utf8FrameValidator(), new WebSocketFrameAggregator(MESSAGE_MOST),
                                new Receiver(events, opened));
                    }
                });
        Channel channel = bootstrap.connect(url.getHost(), port).sync().channel();
        if (!opened.await(OPEN_SECONDS, TimeUnit.SECONDS)) {
            channel.close();
        }
        opened.sync();
        return new Link() {
            @Override
            public void send(String text) throws Exception {
                channel.writeAndFlush(new TextWebSocketFrame(text)).sync();
            }

            @Override
            public void stop() {
                channel.close();
            }
        };
    }

    private static SSLEngine engine(Target target, String host, int port) throws Exception {
        SSLContext trust = target.trust() == null ? SSLContext.getDefault() : target.trust();
        SSLEngine engine = trust.createSSLEngine(host, port);
        engine.setUseClientMode(true);
        SSLParameters parameters = engine.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        engine.setSSLParameters(parameters);
        return engine;
    }

    private static final class Receiver extends SimpleChannelInboundHandler<WebSocketFrame> {
        private final Events events;
        private final Promise<Void> opened;

        Receiver(Events events, Promise<Void> opened) {
            this.events = events;
            this.opened = opened;
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, WebSocketFrame frame) {
            long receivedNs = System.nanoTime();
            if (frame instanceof TextWebSocketFrame text) {
                events.text(text.text(), receivedNs);
            } else if (frame instanceof BinaryWebSocketFrame binary) {
                events.binary(binary.content().nioBuffer(), receivedNs);
            } else if (frame instanceof CloseWebSocketFrame close) {
                events.closed(close.statusCode() < 0 ? 1005 : close.statusCode());
                context.writeAndFlush(close.retain()).addListener(done -> context.close());
            }
        }

        @Override
        public void userEventTriggered(ChannelHandlerContext context, Object event) {
            if (event == ClientHandshakeStateEvent.HANDSHAKE_COMPLETE) {
                events.opened();
                opened.trySuccess(null);
            }
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            events.lost("end of stream");
            opened.tryFailure(new IllegalStateException("the server closed the connection"));
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable error) {
            if (error instanceof CorruptedFrameException || error instanceof TooLongFrameException) {
                events.violated(error.getMessage());
            } else {
                events.lost(error.toString());
            }
            opened.tryFailure(error);
            context.close();
        }
    }
}
