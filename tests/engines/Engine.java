import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;

/** The engine on the class path, with its REST API. It says its port, and ends when its standard input does. */
@SpringBootConfiguration
@EnableAutoConfiguration
public class Engine {
    public static void main(String[] words) throws Exception {
        var engine = SpringApplication.run(Engine.class, words);
        System.out.println("PORT " + engine.getEnvironment().getProperty("local.server.port"));
        System.in.transferTo(java.io.OutputStream.nullOutputStream());
        System.exit(SpringApplication.exit(engine));
    }
}
