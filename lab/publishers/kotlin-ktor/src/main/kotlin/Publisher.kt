// Ktor on Netty: two coroutines per connection. In the test fan-out each subscriber collects from a
// SharedFlow, which drops the oldest messages of a subscriber that is 1,024 behind.

import io.ktor.server.application.install
import io.ktor.server.engine.embeddedServer
import io.ktor.server.netty.Netty
import io.ktor.server.routing.routing
import io.ktor.server.websocket.DefaultWebSocketServerSession
import io.ktor.server.websocket.WebSockets
import io.ktor.server.websocket.webSocket
import io.ktor.websocket.Frame
import io.ktor.websocket.readBytes
import java.nio.file.Files
import java.nio.file.Path
import java.nio.file.StandardCopyOption
import java.time.Instant
import kotlin.concurrent.thread
import kotlin.system.exitProcess
import kotlinx.coroutines.channels.BufferOverflow
import kotlinx.coroutines.flow.MutableSharedFlow
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import java.util.concurrent.locks.LockSupport

fun text(name: String): String = System.getenv(name) ?: ""

fun number(name: String): Int = text(name).toInt()

val publication =
    MutableSharedFlow<ByteArray>(extraBufferCapacity = 1024, onBufferOverflow = BufferOverflow.DROP_OLDEST)

suspend fun DefaultWebSocketServerSession.echo() {
    for (frame in incoming) send(Frame.Text(true, frame.readBytes()))
}

suspend fun DefaultWebSocketServerSession.heartbeat(messages: Int, reply: ByteArray) {
    for (frame in incoming) repeat(messages) { send(Frame.Text(true, reply)) }
}

suspend fun DefaultWebSocketServerSession.subscribe() {
    val sender = launch { publication.collect { send(Frame.Text(true, it)) } }
    for (frame in incoming) continue
    sender.cancel()
}

fun generate(rate: Double, bytes: Int) {
    val start = System.nanoTime()
    val now = Instant.now()
    val startRealtime = now.epochSecond * 1_000_000_000L + now.nano
    var sequence = 1L
    while (true) {
        val due = (sequence / rate * 1e9).toLong()
        while (System.nanoTime() - start < due) LockSupport.parkNanos(due - (System.nanoTime() - start))
        val head = "{\"seq\":$sequence,\"ts_ns\":${startRealtime + due},\"pad\":\""
        publication.tryEmit((head + "x".repeat(maxOf(0, bytes - head.length - 2)) + "\"}").toByteArray())
        sequence += 1
    }
}

fun writeReadyFile(address: String) {
    val ready = Path.of(text("LAB_READY_FILE"))
    val unfinished = Path.of("$ready.unfinished")
    Files.writeString(unfinished, "{\"http\":\"$address\"}")
    Files.move(unfinished, ready, StandardCopyOption.ATOMIC_MOVE)
}

fun main() {
    val test = text("LAB_TEST")
    if (test !in listOf("echo", "heartbeat", "fan-out")) {
        System.err.println("invalid LAB_TEST $test: expected echo, heartbeat or fan-out")
        exitProcess(2)
    }
    val reply = ByteArray(number("LAB_BYTES")) { 'x'.code.toByte() }
    val messages = number("LAB_MESSAGES")
    val server =
        embeddedServer(Netty, port = number("LAB_PORT"), host = text("LAB_HOST")) {
            install(WebSockets)
            routing {
                webSocket("/") {
                    when (test) {
                        "echo" -> echo()
                        "heartbeat" -> heartbeat(messages, reply)
                        else -> subscribe()
                    }
                }
            }
        }
    server.start(wait = false)
    val port = runBlocking { server.resolvedConnectors().first().port }
    if (test == "fan-out") thread(isDaemon = true) { generate(number("LAB_RATE").toDouble(), number("LAB_BYTES")) }
    writeReadyFile("${text("LAB_HOST")}:$port")
    Thread.currentThread().join()
}
